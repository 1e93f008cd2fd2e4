"""Shapes and sizes of trees, chosen by what passes cost and what became of earlier trees."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from forerun.company import plan_batch
from forerun.control import DEPTHS, MARGIN, Seat
from forerun.drafters.base import Trees, parts
from forerun.numerics.token_tree import ROOT, TokenTree
from forerun.numerics.tree_shape import chances, depths_of, growth, widths
from forerun.pace import Bill, Costs, Pace, reads
from forerun.survival import Acceptance
from test_control import (
    FLAT,
    STEEP,
    STEP,
    TABLES,
    TRACES,
    Scripted,
    adaptive,
    costs,
    drafted,
    levels,
    planned,
    run,
)

SCRIPTED = Scripted(trees=Trees())
RANKS = (0.5, 0.25, 0.1, 0.05)


def rich(control):
    """That can pay for anything, and tries nothing."""
    control._account, control._patience = 1e9, {"scripted": 10**6}
    return control


def knowing(given, ranks=RANKS, rounds=1500):
    """A control that has seen wide trees of which child i was accepted with `ranks[i]`."""
    control, rng = adaptive(given), random.Random(1)
    said = SCRIPTED.outlook(0, 9, 64)
    tree = TokenTree((0,) * 4, widths((4,)))
    control._accepts["scripted"] = Acceptance()
    control._accepts["scripted"]._fade = 0.999
    for _ in range(rounds):
        (taken,) = rng.choices((0, 1, 2, 3, None), (*ranks, 1 - sum(ranks)))
        control._accepts["scripted"].learn(said, tree, () if taken is None else (taken,))
    return rich(control)


def test_chances_by_rank_are_learnt():
    found = knowing(costs())._accepts["scripted"].ranks()
    assert found[:4] == pytest.approx(RANKS, abs=0.05)
    assert list(found) == sorted(found, reverse=True)
    assert sum(found) <= 1 + 1e-12


def test_what_was_never_drafted_follows_from_what_is_left():
    """Of chains that are always accepted, nothing is left to second children."""
    accepts, said = Acceptance(), SCRIPTED.outlook(0, 9, 64)
    before = accepts.ranks()
    assert before[:3] == pytest.approx((0.6, 0.2, 0.1))
    for _ in range(60):
        accepts.learn(said, TokenTree.chain((0, 0)), (0, 1))
    assert accepts.ranks()[0] > 0.95
    assert accepts.ranks()[1] < 0.03


def test_a_child_behind_the_accepted_one_is_not_judged():
    accepts, said = Acceptance(), SCRIPTED.outlook(0, 9, 64)
    accepts.learn(said, TokenTree((0,) * 5, (-1, -1, -1, 1, 1)), (1, 3))
    assert {rank: count for rank, (_, count) in accepts._counts.items()} == {
        0: pytest.approx(1 + Acceptance.FADE),
        1: 1,
    }


@pytest.mark.parametrize("own", [(), (0.1,), (0.4, 0.45, 0.5, 0.55)], ids=["free", "cheap", "dear"])
@pytest.mark.parametrize("table", [FLAT, STEP, STEEP], ids=["flat", "step", "steep"])
def test_no_other_shape_and_size_has_a_higher_rate(table, own):
    given = costs(table, scripted=own) if own else costs(table)
    control = knowing(given)
    plan = planned(control, SCRIPTED, 9, 99)
    ranks = control._accepts["scripted"].ranks()

    def rate(shape):
        drafting = Bill(Pace(given))
        drafting.add_all("scripted", reads(shape, len(shape)), 1)
        return (1 + sum(chances(ranks, shape))) / (table[len(shape)] + drafting.seconds)

    others = [growth(ranks, nodes, depth)[0] for nodes in range(1, 16) for depth in DEPTHS]
    best = max([1 / table[0], *map(rate, others)])
    assert (rate(plan.shape) if plan.shape else 1 / table[0]) == pytest.approx(best)


def test_depth_is_what_a_draft_model_is_paid_for():
    """The same number of nodes, wider where a pass for each depth is dear."""
    deep = planned(knowing(costs()), SCRIPTED, 9, 99)
    flat = planned(knowing(costs(scripted=(0.3,))), SCRIPTED, 9, 99)
    assert len(levels(deep)) > len(levels(flat)) >= 1
    assert max(levels(flat)) > 1


def test_where_rows_cost_as_much_as_passes_no_tree_is_drafted():
    given = costs(tuple(range(1, 17)))
    assert planned(knowing(given), SCRIPTED, 9, 99).num_draft == 0


def test_first_children_that_are_always_right_make_chains():
    plan = planned(knowing(costs(), ranks=(1.0, 0.0, 0.0, 0.0)), SCRIPTED, 9, 99)
    assert plan.shape == tuple(range(-1, 14))


def test_a_tree_is_a_part_of_a_drafters_own_shape():
    own = Scripted(trees=Trees(shape=widths((3, 2, 1))))
    plan = planned(knowing(costs()), own, 9, 99)
    assert Counter(depths_of(plan.shape)) <= Counter(depths_of(own.trees.shape))
    short = Scripted(trees=Trees(depth=2))
    assert len(levels(planned(knowing(costs()), short, 9, 99))) == 2


def test_no_more_nodes_than_there_is_room():
    assert planned(knowing(costs()), SCRIPTED, 9, 3).num_draft == 3
    assert planned(knowing(costs()), Scripted(trees=Trees(), most=2), 9, 99).num_draft == 2


def test_what_is_expected_is_what_happens():
    """Over rounds of a steady drafter, whose shapes change as chances are learnt."""
    control, rng = adaptive(costs(scripted=(0.05,))), random.Random(3)
    expected, happened, shapes = 0.0, 0, set()
    for _ in range(3000):
        plan = planned(control, SCRIPTED, 9, 99)
        tree, path, node = drafted(plan), [], ROOT
        while children := tree.children_of(node):
            (taken,) = rng.choices((*range(4), None), (*RANKS, 1 - sum(RANKS)))
            if taken is None or taken >= len(children):
                break
            node = children[taken]
            path.append(node)
        control.learn(plan, tree, path)
        expected, happened = expected + plan.expected.tokens, happened + len(path) + 1
        shapes.add(plan.shape)
    assert happened == pytest.approx(expected, rel=0.03)
    assert len(shapes) > 10


def test_requests_with_trees_share_a_models_passes():
    """Four that share pay for deeper trees than one alone."""
    given = Costs(target=(1.0,) * 16, draft={"scripted": (0.5, *(0.51,) * 15)}, fixed=True)

    def depths(count):
        company = [knowing(given, (0.85, 0.05, 0.05, 0.0)) for _ in range(count)]
        seats = [
            Seat(control=one, drafters=parts(SCRIPTED), slot=0, length=9, room=9) for one in company
        ]
        return [len(levels(plan)) for plan in plan_batch(seats)]

    assert min(depths(4)) > max(depths(1))


def test_a_draft_model_reads_the_tree_above_each_level():
    assert list(reads((-1, 0, -1, 1), 4)) == [((0, 1),), ((1, 1),), ((1, 1),), ((2, 3),)]
    assert list(reads(None, 3)) == [((0, 1),), ((1, 1),), ((2, 1),)]
    shape = widths((2, 2, 1))
    drafting = Bill(Pace(costs(model=tuple(float(n) for n in range(1, 17)))))
    drafting.add_all("model", reads(shape, len(shape)), 3)
    assert drafting.seconds == 3 + 2 + 6


@pytest.mark.parametrize("own", [0.0, 0.3], ids=["free", "a model"])
@pytest.mark.parametrize("trees", [Trees(), Trees(shape=widths((2, 2, 2)))], ids=["any", "one"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "trace", ["nothing", "everything", "all but the last", "turning", "0.5, 0"]
)
def test_trees_never_cost_more_than_the_margin(trace, table, trees, own):
    """Of a tree the first path is accepted, as far as the trace has it."""
    given = costs(TABLES[table], scripted=(own,)) if own else costs(TABLES[table])
    for *_, tokens, spent in run(given, TRACES[trace], drafter=Scripted(trees=trees)):
        assert spent <= (1 + MARGIN) * tokens + 1 + 1e-9
