"""Choices of γ and of a drafter, on simulated requests with given costs: no model, no clock."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from forerun.company import plan_batch
from forerun.control import MARGIN, AdaptiveControl, FixedControl, Seat
from forerun.drafters.base import DrafterTraits, Outlook, Trees, parts
from forerun.numerics.token_tree import ROOT, Drawn, TokenTree
from forerun.numerics.tree_shape import USUAL, best
from forerun.pace import Costs, Pace
from forerun.survival import Acceptance

FLAT = tuple(1 + 0.05 * i for i in range(16))
STEP = (1.0, *(1.5 + 0.03 * i for i in range(15)))
STEEP = tuple(1 + 0.8 * i for i in range(16))
TABLES = {"flat": FLAT, "step": STEP, "steep": STEEP}


class Scripted:
    """A drafter of which control sees what it says, and nothing else."""

    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False)

    def __init__(self, name="scripted", chances=None, most=64, unread=1, trees=None):
        self.name, self.chances, self.most, self.unread = name, chances, most, unread
        self.trees = trees

    def outlook(self, slot, length, most):
        if self.chances is None:
            return Outlook(most=min(most, self.most), unread=self.unread, trees=self.trees)
        return Outlook(most=min(most, len(self.chances)), chances=tuple(self.chances))


class Several:
    def __init__(self, *drafters):
        self.name, self.parts = "several", {d.name: d for d in drafters}


def costs(table=FLAT, **draft):
    return Costs(target=table, draft=draft, fixed=True)


def adaptive(given):
    return AdaptiveControl(Pace(given))


def planned(control, drafter, length, room):
    """A round of one request."""
    seat = Seat(control=control, drafters=parts(drafter), slot=0, length=length, room=room)
    return plan_batch([seat])[0]


def drafted(plan):
    """What a plan drafts, whatever the tokens; of a tree whose shape is left open, the usual."""
    shape = plan.shape
    if shape is None and (trees := plan.outlook.trees) is not None:
        shape = (trees.shape or best(USUAL, plan.num_draft))[: plan.num_draft]
    if shape is None:
        return TokenTree.chain((0,) * plan.num_draft)
    return TokenTree((0,) * len(shape), shape)


def first_path(tree):
    """Nodes down to the first leaf."""
    path = tree.children_of(ROOT)[:1]
    while path and tree.children_of(path[-1]):
        path = (*path, tree.children_of(path[-1])[0])
    return path


def told(control, plan, accepted):
    """That so many tokens of a plan's chain were accepted, or of its tree's first path."""
    tree = drafted(plan)
    control.learn(plan, tree, first_path(tree)[:accepted])


def levels(plan):
    """Nodes at each depth."""
    return list(Counter(drafted(plan).depths).values())


def price(given, plan, rows):
    """Seconds of a round, by hand: a pass, and one of the draft model for each depth."""
    own = given.draft.get(plan.drafter, (0.0,))[0] if rows > 1 else 0.0
    return given.target[rows - 1] + own * len(levels(plan))


def run(given, accepts, tokens=300, drafter=None, control=None):
    """Rounds as (drafter, γ, accepted, tokens so far, cost so far). `accepts(position, γ)`."""
    drafter = drafter or Scripted()
    control = control or adaptive(given)
    rounds, position, spent = [], 0, 0.0
    while position < tokens:
        plan = planned(control, drafter, 10 + position, tokens - position - 1)
        n = plan.num_draft
        accepted = min(accepts(position, len(levels(plan))), len(levels(plan))) if n else 0
        told(control, plan, accepted)
        spent += price(given, plan, n + 1)
        position += accepted + 1
        rounds.append((plan.drafter, n, accepted, position, spent))
    return rounds


def coins(chance, seed):
    rng = random.Random(seed)

    def accepts(position, n):
        taken = 0
        while taken < n and rng.random() < chance:
            taken += 1
        return taken

    return accepts


def bait(position, n):
    """Takes single tokens, and nothing once there are several."""
    return n if n < 2 else 0


def turning(position, n):
    return n if position % 100 < 50 else 0


TRACES = {
    "nothing": lambda position, n: 0,
    "everything": lambda position, n: n,
    "all but the last": lambda position, n: n - 1,
    "bait": bait,
    "turning": turning,
    **{f"{chance}, {seed}": coins(chance, seed) for chance in (0.1, 0.5, 0.8) for seed in range(5)},
}


# ------------------------------------------------------------------ the bound


@pytest.mark.parametrize("own", [0.0, 0.3], ids=["free", "a model"])
@pytest.mark.parametrize("chances", [None, [0.95] * 15], ids=["unsure", "sure of itself"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("trace", TRACES)
def test_it_never_costs_more_than_the_margin(trace, table, chances, own):
    """At every point of every trace: cost ≤ (1 + MARGIN) · tokens + 1, in plain passes."""
    given = costs(TABLES[table], scripted=(own,)) if own else costs(TABLES[table])
    for *_, tokens, spent in run(given, TRACES[trace], drafter=Scripted(chances=chances)):
        assert spent <= (1 + MARGIN) * tokens + 1 + 1e-9


@pytest.mark.parametrize("table", TABLES)
def test_a_useless_drafter_costs_less_and_less(table):
    rounds = run(costs(TABLES[table]), TRACES["nothing"], tokens=1000)
    assert 1000 / rounds[-1][-1] > 0.98
    tried = [i for i, (_, n, *_) in enumerate(rounds) if n]
    assert 4 < len(tried) < 30
    assert tried[-1] - tried[-2] == 65, "it goes on trying, once in a while"


def test_without_the_account_the_same_trace_breaks_the_bound(monkeypatch):
    """The bound is the account's doing: the test above can fail."""
    monkeypatch.setattr("forerun.control.MARGIN", 1e6)
    rounds = run(costs(STEP, scripted=(0.3,)), bait, drafter=Scripted(chances=[0.95] * 15))
    assert max(spent - 1.02 * tokens - 1 for *_, tokens, spent in rounds) > 4


# ------------------------------------------------------------------ what pays


@pytest.mark.parametrize("look", [0.0, 0.01, 0.05, 0.3])
def test_looking_for_drafts_is_paid_for_too(look):
    given = costs()
    control = adaptive(given)
    control.pace.learn_look(look)
    spent, looks = 0.0, []
    for n in range(2000):
        plan = planned(control, Scripted(), 10 + n, 50)
        told(control, plan, 0)
        spent += price(given, plan, plan.num_draft + 1) + look * plan.looked
        looks.append(plan.looked)
        assert spent <= (1 + MARGIN) * (n + 1) + 1 + 1e-9
    assert looks[0]
    share = sum(looks) / len(looks)
    assert share == 1 if look < MARGIN else 0.3 * MARGIN < share * look < 1.1 * MARGIN
    rests = "".join(" L"[looked] for looked in looks[200:]).split("L")
    assert all(len(rest) >= 10 for rest in rests[1:-1] if rest), "it saves for several looks"


def test_who_cannot_pay_for_a_draft_saves_for_it(monkeypatch):
    """A look costs more than each token's margin: who went on looking would never have enough."""

    def unlucky(position, n):
        return n if position > 20 else 0

    def drafts():
        given = costs(scripted=(0.25,))
        pace = Pace(given)
        pace.learn_look(0.05)
        rounds = run(given, unlucky, tokens=600, control=AdaptiveControl(pace))
        assert [n for _, n, *_ in rounds[:20] if n]
        return sum(n > 0 for _, n, _, position, _ in rounds if position > 20)

    assert drafts() > 20
    monkeypatch.setattr("forerun.company.Company._save", lambda self, offers: None)
    assert drafts() == 0


def test_a_round_that_looks_for_nothing_costs_nothing():
    """The first behind a long text is plain, to compare others with."""
    control = AdaptiveControl(Pace(Costs(target=FLAT)))
    control.pace.learn_look(0.01)
    plan = planned(control, Scripted(), 100_000, 50)
    assert (plan.looked, plan.price, plan.num_draft) == (False, 0.0, 0)
    assert planned(control, Scripted(), 10, 50).price >= 0.01


def test_who_is_accepted_need_not_rest():
    control = adaptive(costs())
    control.pace.learn_look(0.3)
    for n in range(300):
        plan = planned(control, Scripted(), 10 + n, 50)
        assert plan.looked
        told(control, plan, plan.num_draft)


def test_speculation_that_pays_is_used():
    *_, spent = run(costs(), TRACES["everything"])[-1]
    assert spent < 0.2 * 300
    *_, spent = run(costs(), coins(0.8, 1))[-1]
    assert spent < 0.4 * 300
    *_, spent = run(costs(STEP), coins(0.8, 1))[-1]
    assert spent < 0.6 * 300


def test_where_rows_cost_as_much_as_passes_nothing_is_drafted():
    rounds = run(costs(tuple(range(1, 17))), coins(0.9, 1))
    assert sum(n for _, n, *_ in rounds) < 12


def test_the_more_is_accepted_the_more_is_drafted():
    def usual(chance):
        rounds = run(costs(), coins(chance, 3))[-20:]
        return sum(n for _, n, *_ in rounds) / len(rounds)

    assert usual(0.3) < usual(0.7) < usual(0.9) < usual(1.0) == pytest.approx(14, abs=2)


def test_a_drafter_that_becomes_good_is_found_out():
    rounds = run(costs(), lambda position, n: n if position > 200 else 0, tokens=400)
    first = next(tokens - accepted for _, _, accepted, tokens, _ in rounds if accepted)
    assert 200 < first <= 201 + 65
    assert rounds[-2][1] > 5


def test_at_most_fifteen_and_no_more_rows_than_the_table_has():
    assert max(n for _, n, *_ in run(costs(), TRACES["everything"])) == 15
    assert max(n for _, n, *_ in run(costs(FLAT[:4]), TRACES["everything"])) == 3
    assert max(n for _, n, *_ in run(costs(FLAT[:1]), TRACES["everything"])) == 0


def test_no_further_than_there_is_room():
    control = adaptive(costs())
    assert planned(control, Scripted(), 9, 0).num_draft == 0
    assert planned(control, Scripted(), 9, 1).num_draft == 1


def test_what_a_drafter_says_of_itself_is_believed_and_corrected():
    """Of a chance that always holds much is drafted at once; of one that never does, ever less."""
    control = adaptive(costs())
    assert planned(control, Scripted(chances=[0.9] * 15), 9, 99).num_draft > 5
    assert planned(control, Scripted(chances=[0.02] * 15), 9, 99).num_draft == 1  # a try
    rounds = run(costs(), TRACES["nothing"], drafter=Scripted(chances=[0.9] * 15))
    assert sum(n for _, n, *_ in rounds[-50:]) <= 2


def test_what_is_expected_is_what_happens():
    """Over rounds of a steady drafter, on average."""
    control, rng = adaptive(costs()), random.Random(3)
    expected, happened = 0.0, 0
    for _ in range(2000):
        plan = planned(control, Scripted(), 9, 99)
        accepted = 0
        while accepted < plan.num_draft and rng.random() < 0.7:
            accepted += 1
        told(control, plan, accepted)
        expected, happened = expected + plan.expected.tokens, happened + accepted + 1
        assert plan.expected.seconds == FLAT[plan.num_draft]
    assert happened == pytest.approx(expected, rel=0.05)


def test_a_few_unlucky_rounds_do_not_end_what_pays_by_little():
    """Where others' drafts are accepted with .4 and cost .28 of a pass."""
    pace = Pace(costs((1.0, 1.28, 2.0)))
    others, accepts = pace.usual("scripted"), coins(0.4, 1)
    said = Outlook(most=1)
    for i in range(300):
        others.learn(said, TokenTree.chain((0,)), (0,) * accepts(i, 1))
    control = AdaptiveControl(pace)
    control._account = 3.0
    for _ in range(4):
        plan = planned(control, Scripted(most=1), 9, 99)
        assert (plan.num_draft, plan.tried) == (1, False)
        told(control, plan, 0)
    asked = []
    for _ in range(20):
        plan = planned(control, Scripted(most=1), 9, 99)
        told(control, plan, 0)
        asked.append(plan.num_draft)
    assert sum(asked) < 10, "many do"


def test_shorter_drafts_say_nothing_of_longer_ones():
    control = adaptive(costs())
    short, long = Scripted(most=2), Scripted()
    for _ in range(30):
        plan = planned(control, short, 9, 99)
        told(control, plan, plan.num_draft)
    deep = control._accepts["scripted"]
    assert set(deep._counts) == {0, 1}
    assert planned(control, long, 9, 99).num_draft > 5


def test_the_same_past_gives_the_same_plan():
    assert run(costs(STEP), coins(0.6, 4)) == run(costs(STEP), coins(0.6, 4))


# ------------------------------------------------------------------ several drafters


def test_the_better_one_is_used_and_of_equals_the_first():
    free, model = Scripted("free", chances=[0.9] * 15), Scripted("model")
    first = adaptive(costs(model=(0.3,)))
    assert planned(first, Several(free, model), 9, 99).drafter == "free"
    free.chances = [0.05]
    assert planned(first, Several(free, model), 9, 99).drafter == "model"
    free.chances = []
    assert planned(first, Several(free, model), 9, 99).drafter == "model"
    twins = Several(Scripted("a"), Scripted("b"))
    assert planned(adaptive(costs()), twins, 9, 99).drafter == "a"


def test_what_is_learnt_of_one_is_not_held_against_the_other():
    def accepts_nothing_of(name):
        return lambda plan: 0 if plan.drafter == name else plan.num_draft

    for bad, good in (("a", "b"), ("b", "a")):
        control, used = adaptive(costs()), []
        for _ in range(40):
            plan = planned(control, Several(Scripted("a"), Scripted("b")), 9, 99)
            accepted = accepts_nothing_of(bad)(plan)
            told(control, plan, accepted)
            used.append(plan.drafter)
        assert used[-10:] == [good] * 10


def test_text_that_a_model_has_not_read_counts():
    """A pass over twelve tokens before the first draft: then the free one is better."""
    free, model = Scripted("free", chances=[0.4] * 15), Scripted("model", unread=1)
    table = tuple(0.05 * (1 + i) for i in range(16))
    control = adaptive(costs(model=table))
    assert planned(control, Several(free, model), 9, 99).drafter == "model"
    model.unread = 12
    assert planned(control, Several(free, model), 9, 99).drafter == "free"


# ------------------------------------------------------------------ a fixed number


def test_a_fixed_number_is_fixed():
    control = FixedControl(4)
    assert [planned(control, Scripted(), 9, room).num_draft for room in (9, 4, 2, 0)] == [
        4,
        4,
        2,
        0,
    ]
    assert planned(control, Scripted(), 9, 0).drafter is None
    assert planned(FixedControl(0), Scripted(), 9, 9).drafter is None
    assert planned(control, Scripted(), 9, 9).expected is None


def test_of_several_a_fixed_number_asks_the_one_that_promises_most():
    free, model = Scripted("free", chances=[]), Scripted("model")
    both = Several(free, model)
    assert planned(FixedControl(4), both, 9, 9).drafter == "model"
    free.chances = [0.9, 0.9, 0.9, 0.9]
    assert planned(FixedControl(4), both, 9, 9).drafter == "free"
    free.chances = [0.01]
    assert planned(FixedControl(4), both, 9, 9).drafter == "model"
    model.most = 0
    assert planned(FixedControl(4), both, 9, 9).drafter == "free"
    free.chances = []
    assert planned(FixedControl(4), both, 9, 9).drafter is None
    same = Several(Scripted("a", chances=[0.5]), Scripted("b", chances=[0.5]))
    assert planned(FixedControl(4), same, 9, 9).drafter == "a"


@pytest.mark.parametrize("trees", [None, Trees(depth=4)])
def test_of_several_a_fixed_number_learns_what_their_drafts_come_to(trees):
    """A model of whose drafts nothing is accepted loses to a guess of one in two."""
    for accepted, name in ((0, "free"), (3, "model")):
        control = FixedControl(4)
        free, model = Scripted("free", chances=[]), Scripted("model", trees=trees)
        both = Several(free, model)
        for _ in range(12):
            plan = planned(control, both, 9, 9)
            assert (plan.drafter, plan.num_draft) == ("model", 4)
            told(control, plan, accepted)
        free.chances = [0.5, 0.5]
        assert planned(control, both, 9, 9).drafter == name


def test_of_several_a_fixed_number_counts_the_nodes_that_are_there():
    """A tree of one node brings one token at most."""
    small, chain = Scripted("small", most=1, trees=Trees()), Scripted("chain", chances=[])
    for chances, name in (([0.5, 0.5, 0.5, 0.5], "chain"), ([0.3, 0.3], "small")):
        chain.chances = chances
        assert planned(FixedControl(4), Several(small, chain), 9, 9).drafter == name


def test_of_several_a_fixed_number_leaves_one_that_drafts_nothing():
    """It promises and has no room: as good as rejected. Later it is asked again."""
    control = FixedControl(4)
    both = Several(Scripted("model"), Scripted("free", chances=[0.5, 0.5]))
    asked = []
    for _ in range(60):
        plan = planned(control, both, 9, 9)
        asked.append(plan.drafter)
        if plan.drafter == "model":
            control.learn(plan, TokenTree.chain(()), ())
        else:
            told(control, plan, 1)
    assert asked[0] == "model"
    assert "model" in asked[20:]
    assert asked.count("free") > 40


def test_a_draft_that_is_longer_than_promised_teaches_what_was_promised():
    control = FixedControl(4)
    plan = planned(control, Scripted(chances=[0.5]), 9, 9)
    control.learn(plan, TokenTree.chain((0, 0, 0, 0)), (0, 1, 2))
    assert planned(control, Scripted(chances=[0.5]), 9, 9).drafter == "scripted"


# ------------------------------------------------------------------ what other requests showed


def test_a_request_begins_where_those_before_it_ended():
    """The drafter thinks much of itself; what became of its drafts is known from others."""
    pace, boaster = Pace(costs(STEP)), Scripted(chances=[0.9] * 15)
    first = AdaptiveControl(pace)
    run(costs(STEP), TRACES["nothing"], 2000, boaster, first)
    later = AdaptiveControl(pace)
    assert sum(n > 0 for _, n, *_ in run(costs(STEP), TRACES["nothing"], 60, boaster, later)) <= 2
    assert planned(AdaptiveControl(Pace(costs(STEP))), boaster, 9, 99).num_draft > 5


def test_a_request_unlike_those_before_it_is_found_out():
    pace, boaster = Pace(costs(STEP)), Scripted(chances=[0.9] * 15)
    run(costs(STEP), TRACES["nothing"], drafter=boaster, control=AdaptiveControl(pace))
    own = run(costs(STEP), TRACES["everything"], 300, boaster, AdaptiveControl(pace))
    assert own[-1][-1] < 0.4 * 300


def test_bad_luck_is_forgotten(monkeypatch):
    """What others saw is believed again, and that without a try against expectation."""

    def pause(forgetting=True):
        given = costs(scripted=(0.3,))
        pace = Pace(given)
        for seed in range(3):
            run(given, coins(0.5, seed), control=AdaptiveControl(pace))
        control = AdaptiveControl(pace)
        run(given, coins(0.5, 9), control=control)  # it has saved, too
        if not forgetting:
            monkeypatch.setattr(Acceptance, "forget", lambda self, rounds: None)
        plans = []
        while len(plans) < 200:
            plans.append(planned(control, Scripted(), 500, 99))
            if plans[-1].num_draft and 0 in [plan.num_draft for plan in plans]:
                return [plan.num_draft for plan in plans].count(0), plans[-1].tried
            told(control, plans[-1], 0)
        return None

    rounds, tried = pause()
    assert 2 < rounds < 16
    assert not tried
    longer, tried = pause(forgetting=False)
    assert longer > rounds
    assert tried


def test_what_is_hardly_ever_reached_is_not_offered():
    control = adaptive(costs())
    (offer,) = control.offers(
        0,
        Seat(
            control=control, drafters=parts(Scripted(chances=[0.3] * 15)), slot=0, length=9, room=99
        ),
        1.0,
    )
    assert len(offer.survival) == 3
