"""The γ of several requests decided together: simulated companies with given costs."""

from __future__ import annotations

import itertools
import random

import pytest

import forerun.control
from forerun.company import MOST_ROWS, divided, learn_batch, plan_batch
from forerun.control import MARGIN, AdaptiveControl, FixedControl, Seat
from forerun.drafters.base import Trees
from forerun.numerics.token_tree import TokenTree
from forerun.numerics.tree_shape import widths
from forerun.pace import Costs, Pace, situation
from forerun.trace import Times
from test_control import (
    STEEP,
    STEP,
    TRACES,
    Scripted,
    Several,
    costs,
    levels,
    parts,
    told,
)

NATIVE = (1, 0.92, 1.08, 1.21, 1.45, 1.7, 1.95, 2.2, 2.5, 2.8, 3.1, 3.4, 3.6, 3.8, 4.0, 4.3)
TABLES = {
    "nearly free": tuple(1 + 0.02 * i for i in range(16)),
    "native": tuple(sorted(NATIVE)),
    "step": STEP,
    "steep": STEEP,
    "steps": tuple(1 + 0.6 * (i // 4) for i in range(128)),
}


NONE, TWO = TokenTree(), TokenTree.chain([0, 0])


def seat(control, drafter, length=100, room=99):
    return Seat(control=control, drafters=parts(drafter), slot=0, length=length, room=room)


def seats(pace, *drafters, room=99):
    return [seat(AdaptiveControl(pace), drafter, room=room) for drafter in drafters]


def rich(company):
    """That can pay for anything, and tries nothing."""
    for one in company:
        one.control._account = 1e9
        one.control._patience = {"scripted": 10**6}
    return company


def seconds(table, rows):
    """Of a pass, by hand; beyond the table its last step goes on."""
    beyond = max(rows - len(table), 0)
    step = table[-1] - table[-2] if len(table) > 1 else 0.0
    return table[min(rows, len(table)) - 1] + beyond * step


def drafting(given, plans):
    """By hand: a pass for each depth, over those that draft so far; the first over what is new, a
    later one over a chain's last token, or all of the tree above."""
    spent = 0.0
    for name, table in given.draft.items():
        mine = [plan for plan in plans if plan.drafter == name and plan.num_draft]
        for depth in range(max((len(levels(plan)) for plan in mine), default=0)):
            new = 0
            for plan in mine:
                if depth < len(levels(plan)):
                    chain = plan.shape is None and plan.outlook.trees is None
                    above = 1 if chain else sum(levels(plan)[:depth])
                    new += max(plan.outlook.unread, 1) if depth == 0 else above
            spent += seconds(table, new)
    return spent


def taken(accepts, position, drafted):
    return min(accepts(position, drafted), drafted) if drafted else 0


# ------------------------------------------------------------------ the bound


class Member:
    """A request of a simulated engine: with a drafter, good or bad, and a kind of control."""

    def __init__(self, rng, pace, kinds, own):
        self.accepts = TRACES[rng.choice(sorted(TRACES))]
        names = ["scripted", "model"] if own else ["scripted"]
        sure = rng.choice([None, [0.95] * 15, [0.05] * 4])
        trees = rng.choice([None, Trees(), Trees(shape=widths((2, 1, 1)))])
        sure = sure if trees is None else None
        unread = rng.choice([1, 4])
        made = [Scripted(name, chances=sure, unread=unread, trees=trees) for name in names]
        self.drafter = Several(*made)
        kind = rng.choice(kinds)
        self.adaptive = kind == "auto"
        self.control = AdaptiveControl(pace) if self.adaptive else FixedControl(kind)
        self.position, self.ends, self.worth = 0, rng.choice([3, 20, 150, 400]), None

    @property
    def seat(self):
        return seat(self.control, self.drafter, 9 + self.position, self.ends - self.position - 1)


def simulate(seed, table, *, own=(), kinds=("auto",), most=8, rounds=120):
    """Requests come and go; yields after each round what all of it took and what it may take, in
    seconds: rounds, those of the same companies without drafts, income, first worths."""
    rng = random.Random(seed)
    given = costs(table, model=own) if own else costs(table)
    pace, members = Pace(given), []
    spent = plain = income = begun = written = worths = 0.0
    for _ in range(rounds):
        while len(members) < most and (not members or rng.random() < 0.3):
            members.append(Member(rng, pace, kinds, own))
        plans = plan_batch([member.seat for member in members])
        fixed = [p if not m.adaptive else None for m, p in zip(members, plans)]
        rows = len(members) + sum(plan.num_draft for plan in fixed if plan)
        base = seconds(table, rows) + drafting(given, [plan for plan in fixed if plan])
        spent += seconds(table, len(members) + sum(plan.num_draft for plan in plans))
        spent += drafting(given, plans)
        plain += base
        for member, plan in zip(members, plans):
            accepted = taken(member.accepts, member.position, len(levels(plan)))
            told(member.control, plan, accepted)
            member.position += accepted + 1
            if member.adaptive:
                if member.worth is None:
                    member.worth = base / rows
                    begun += member.worth
                assert member.control._account >= -1e-9
                assert plan.worth == pytest.approx(base / rows)
                income += base / rows * (accepted + MARGIN * (accepted + 1))
                worths += base / rows * (accepted + 1)
                written += 1
        members = [member for member in members if member.position < member.ends]
        yield spent, plain, income, begun, worths


@pytest.mark.parametrize("own", [(), (0.3,), (0.05, 0.06, 0.2)], ids=["free", "dear", "shared"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_is_never_slower_than_the_margin(seed, table, own):
    """Whatever drafts are worth, at every point: throughput as that of the same companies without
    drafts, to MARGIN and a token's worth for each request that came."""
    for spent, plain, income, begun, worths in simulate(seed, TABLES[table], own=own):
        assert spent <= plain + income + begun + 1e-9
        assert spent <= (1 + MARGIN) * worths + begun + 1e-9


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("seed", range(3))
def test_beside_requests_of_a_fixed_number(seed, table):
    kinds = ("auto", "auto", 0, 3, 15)
    for spent, plain, income, begun, _ in simulate(seed, TABLES[table], own=(0.3,), kinds=kinds):
        assert spent <= plain + income + begun + 1e-9


def sixteen(table, trace):
    """Tokens per plain token's worth of sixteen requests whose drafter is sure of itself."""
    given = costs(table, scripted=(0.2, 0.21))
    company = seats(Pace(given), *[Scripted(chances=[0.95] * 15) for _ in range(16)], room=999)
    spent = tokens = 0.0
    while tokens < 16 * 120:
        plans = plan_batch(company)
        spent += seconds(table, 16 + sum(plan.num_draft for plan in plans))
        spent += drafting(given, plans)
        for one, plan in zip(company, plans):
            accepted = taken(TRACES[trace], int(tokens / 16), plan.num_draft)
            told(one.control, plan, accepted)
            tokens += accepted + 1
    return tokens / spent * seconds(table, 16) / 16


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("trace", ["nothing", "bait", "turning", "0.1, 0"])
def test_a_full_batch_of_bad_drafts_keeps_97_percent(trace, table):
    assert sixteen(TABLES[table], trace) >= 0.97


def test_without_accounts_it_does_not(monkeypatch):
    """The bound is their doing."""
    monkeypatch.setattr(forerun.control, "MARGIN", 1e6)
    assert sixteen(TABLES["steps"], "bait") < 0.9


def test_who_drafts_pays_and_nobody_more_than_it_has():
    assert divided({0: 1.0, 1: 3.0}, {0: 9, 1: 9}) == {0: 1.0, 1: 3.0}
    assert divided({0: 1.0, 1: 3.0}, {0: 9, 1: 2}) == {0: 2.0, 1: 2}
    assert divided({0: 1.0, 1: 2.0, 2: 5.0}, {0: 4, 1: 9, 2: 2}) == {0: 2.0, 1: 4.0, 2: 2}
    assert divided({0: 0.0, 1: 0.0}, {0: 1, 1: 1}) == {0: 0, 1: 0}
    assert divided({}, {}) == {}
    rng = random.Random(1)
    for _ in range(300):
        funds = {i: rng.random() for i in range(5)}
        prices = {i: rng.random() for i in range(5)}
        share = rng.random() * sum(funds.values()) / sum(prices.values())
        prices = {i: share * price for i, price in prices.items()}
        paid = divided(prices, funds)
        assert sum(paid.values()) == pytest.approx(sum(prices.values()))
        assert all(paid[i] <= funds[i] + 1e-12 for i in paid)


# ------------------------------------------------------------------ what pays


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("seed", range(8))
def test_nothing_has_a_higher_rate(seed, table):
    """All drafts of three requests, by brute force; where rows alone cost, and can be paid."""
    rng, pace = random.Random(seed), Pace(costs(TABLES[table]))
    said = [sorted((rng.random() for _ in range(4)), reverse=True) for _ in range(3)]
    company = rich(seats(pace, *[Scripted(chances=chances) for chances in said]))
    survival = [o.survival for i, s in enumerate(company) for o in s.control.offers(i, s, 1.0)]
    plans = plan_batch(company)

    def rate(counts):
        tokens = sum(1 + sum(s[:n]) for s, n in zip(survival, counts))
        return tokens / seconds(TABLES[table], 3 + sum(counts))

    best = max(itertools.product(range(5), repeat=3), key=rate)
    assert rate([plan.num_draft for plan in plans]) == pytest.approx(rate(best))
    assert sum(plan.expected.seconds for plan in plans) == pytest.approx(
        seconds(TABLES[table], 3 + sum(plan.num_draft for plan in plans))
    )


def test_likelier_drafts_get_more_rows():
    chances = [[0.3] * 15, [0.98] * 15, [0.8] * 15]
    company = rich(
        seats(Pace(costs(TABLES["nearly free"])), *[Scripted(chances=c) for c in chances])
    )
    few, most, some = (plan.num_draft for plan in plan_batch(company))
    assert 0 < few < some < most


def test_where_rows_cost_as_much_as_passes_high_acceptance_is_no_reason():
    """0.83 of the drafts accepted, 32 requests, each row as much as the last: others lose 16%."""
    company = seats(Pace(costs(tuple(1 + 0.9 * i for i in range(16)))),
                    *[Scripted(chances=[0.83] * 15) for _ in range(32)])  # fmt: skip
    assert sum(plan.num_draft for plan in plan_batch(company)) <= 1  # a try


def test_a_step_is_crossed_together():
    """One alone cannot pay for it, or gain by it; four can."""
    table = tuple(1 + 0.6 * (i // 4) for i in range(16))
    alone = plan_batch(
        seats(Pace(costs(table)), *[Scripted(chances=[0.9])] + [Scripted(most=0)] * 3)
    )
    assert [plan.num_draft for plan in alone] == [0, 0, 0, 0]
    together = plan_batch(seats(Pace(costs(table)), *[Scripted(chances=[0.9])] * 4))
    assert [plan.num_draft for plan in together] == [1, 1, 1, 1]
    assert sum(plan.price for plan in together) == pytest.approx(0.6)


def test_a_draft_models_passes_are_shared():
    given = costs(TABLES["nearly free"], model=(0.5, 0.51, 0.52, 0.53))
    few = plan_batch(seats(Pace(given), Scripted("model"), *[Scripted("model", most=0)] * 3))
    assert [plan.num_draft for plan in few] == [0] * 4
    every = plan_batch(seats(Pace(given), *[Scripted("model")] * 4))
    assert min(plan.num_draft for plan in every) > 0
    assert len({plan.num_draft for plan in every}) == 1


def test_lookups_go_on_where_too_few_would_share_a_model():
    given = costs(TABLES["nearly free"], model=(2.0,))
    both = Several(Scripted("model", chances=[0.99] * 15), Scripted("lookup", chances=[0.6] * 3))
    plans = plan_batch(seats(Pace(given), both, Scripted("lookup", chances=[])))
    assert [(plan.drafter, plan.num_draft > 0) for plan in plans] == [
        ("lookup", True),
        (None, False),
    ]


def test_tries_are_made_one_at_a_time():
    company = seats(Pace(costs(STEEP)), *[Scripted(chances=[0.5] * 3) for _ in range(6)])
    tried = []
    for _ in range(6):
        plans = plan_batch(company)
        (found,) = [i for i, plan in enumerate(plans) if plan.num_draft]
        assert plans[found].tried
        tried.append(found)
        for one, plan in zip(company, plans):
            told(one.control, plan, 0)
    assert sorted(tried) == list(range(6))


def test_the_order_of_the_batch_does_not_matter():
    said = [0.3, 0.95, 0.8, 0.6]
    made = {}
    for order in itertools.permutations(said):
        pace = Pace(costs(TABLES["native"]))
        plans = plan_batch(rich(seats(pace, *[Scripted(chances=[c] * 15) for c in order])))
        made[order] = {c: plan.num_draft for c, plan in zip(order, plans)}
    assert len({tuple(sorted(found.items())) for found in made.values()}) == 1


def test_no_more_rows_than_a_pass_takes():
    company = rich(seats(Pace(costs((1.0, 1.0))), *[Scripted(chances=[0.99])] * 100))
    assert sum(1 + plan.num_draft for plan in plan_batch(company)) == MOST_ROWS
    fixed = [seat(FixedControl(15), Scripted()) for _ in range(20)]
    assert sum(plan.num_draft for plan in plan_batch([*fixed, *company[:1]])) == 300


def test_fixed_numbers_are_as_they_were_told():
    kinds = (FixedControl(4), FixedControl(0), AdaptiveControl(Pace(costs())))
    plans = plan_batch([seat(control, Scripted(), room=9) for control in kinds])
    assert [plan.num_draft for plan in plans[:2]] == [4, 0]
    assert [plan.expected is None for plan in plans] == [True, True, False]
    assert plans[2].worth == pytest.approx(seconds(costs().target, 7) / 7)


# ------------------------------------------------------------------ times


def test_a_round_teaches_the_pace_once():
    """All rows, all slots, and the drafters' whole time."""
    pace = Pace(Costs(target=tuple(1.0 + n for n in range(16)), draft={"model": (0.1, 0.2)}))
    company = [*seats(pace, *[Scripted("model")] * 2), seat(FixedControl(0), Scripted("model"))]
    plans = plan_batch(company)
    plans[:2] = [forerun.control.Plan(drafter="model", num_draft=2, at=plans[0].at)] * 2
    times = Times(draft=0.8, target=14.0, verify=0.7)
    learn_batch([one.control for one in company], plans, [TWO, TWO, NONE], [0.4, 0.4, 0.0], times)
    at = situation([100, 100, 100])
    assert pace.rows(at, 7)[6] == pytest.approx(14.0 + 0.7)
    assert pace.rows(situation([100]), 1)[0] == pytest.approx(1.0 + 0.1), "other slots, as before"
    assert pace.ratio("model") == pytest.approx(0.8 / (0.2 + 0.2))


def test_long_texts_begin_with_a_plain_pass():
    pace = Pace(Costs(target=TABLES["nearly free"]))
    company = [seat(AdaptiveControl(pace), Scripted(), length=500) for _ in range(2)]
    plans = plan_batch(company)
    assert [plan.num_draft for plan in plans] == [0, 0]
    times = Times(draft=0, target=2.0, verify=0)
    learn_batch([one.control for one in company], plans, [NONE, NONE], [0, 0], times)
    assert min(plan.num_draft for plan in plan_batch(company)) > 0
