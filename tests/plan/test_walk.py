"""Rounds played through are those that an engine then needs."""

from __future__ import annotations

import random

import pytest

from forerun import Engine
from forerun.certify.tiny_head import tiny_head
from forerun.control import AdaptiveControl, FixedControl
from forerun.drafters import (
    GreedyPlusOneTreeDrafter,
    HeadDrafter,
    HybridDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    SampledTreeDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.drafters.base import Outlook
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.model import HeadModel
from forerun.models.tabular import HIDDEN
from forerun.numerics.token_tree import TokenTree
from forerun.pace import Costs, Pace
from forerun.plan.replay import Moment, Replay, replay
from forerun.plan.rounds import RoundCosts
from forerun.plan.texts import Asked, write
from forerun.plan.walk import Recorded, walk
from forerun.verifiers import verifier
from plan.clocked import PROMPTS, V, models

LENGTH = 40
GREEDY = {"temperature": 0, "max_tokens": LENGTH}


def linear(target, slots=1):
    """The costs that a clocked model has."""
    rows = tuple(range(slots, slots + 40))
    return RoundCosts(slots=slots, rows=rows, seconds=target.pass_seconds[slots - 1 : slots + 39])


def recorded(target, drafter, size, passes=()):
    texts = [write(target, Asked(name=str(prompt), prompt=prompt), GREEDY) for prompt in PROMPTS]
    replays = [
        replay(target, drafter, verifier("coupled"), text, [1.0] * LENGTH, size) for text in texts
    ]
    lengths = [(len(text.request.prompt), len(text.output)) for text in texts]
    return lengths, Recorded.of(drafter, replays, passes)


def engine_rounds(target, drafter, **options):
    """Of each text, but the first."""
    with Engine(target, drafter, **options) as engine:
        return [len(engine.generate(prompt, **GREEDY).trace) - 1 for prompt in PROMPTS]


@pytest.mark.parametrize("num_draft", [1, 3, 8])
@pytest.mark.parametrize("make", [NgramDrafter, SuffixDrafter, SuffixTreeDrafter, "model"])
def test_rounds_with_a_fixed_number_are_the_engines(make, num_draft):
    _, target, small = models()

    def made():
        return ModelDrafter(small) if make == "model" else make()

    lengths, part = recorded(target, made(), 15)
    found = walk(lengths, [part], lambda: FixedControl(num_draft), linear(target))
    assert found.rounds == sum(engine_rounds(target, made(), num_draft=num_draft))
    assert LENGTH - num_draft - 1 <= found.tokens / len(PROMPTS) < LENGTH
    assert 1 < found.tokens_per_pass <= num_draft + 1


@pytest.mark.parametrize(
    "make", [SampledTreeDrafter, GreedyPlusOneTreeDrafter, LikeliestTreeDrafter]
)
def test_so_are_those_with_trees_of_that_size(make):
    _, target, small = models()
    lengths, part = recorded(target, make(small), 6)
    found = walk(lengths, [part], lambda: FixedControl(6), linear(target))
    expected = engine_rounds(target, make(small), num_draft=6)
    assert abs(found.rounds - sum(expected)) <= len(PROMPTS), "but where the text's end cuts trees"


@pytest.mark.parametrize("stride", [1, 5])
def test_places_that_stand_for_others_count_alike(stride):
    """Half of all drafts of three are accepted whole, the others not at all: 2.5 tokens a pass. If
    each stood for those behind it, it would be 1.5."""
    length, dice = 3000, random.Random(1)
    tree = TokenTree.chain((0, 0, 0))
    moments = {}
    for at in range(0, length, stride):
        path = (0, 1, 2) if dice.random() < 0.5 else ()
        moments[at] = Moment(
            outlook=Outlook(most=3), tree=tree, path=path, survival=(1.0,) * len(path),
            seconds=(0.0,) * 3,
        )  # fmt: skip
    found = Replay(moments=moments, stride=stride, following=0.0, looking=0.0)
    part = Recorded(name="half", traits=NgramDrafter.traits, replays=[found], seconds=(0.0,))
    costs = RoundCosts(slots=1, rows=(1, 4), seconds=(1.0, 1.0, 1.0, 1.0))
    walked = walk([(9, length)], [part], lambda: FixedControl(3), costs)
    whole = sum(len(moment.path) for moment in moments.values()) / len(moments)
    assert walked.tokens_per_pass == pytest.approx(1 + whole, abs=0.12)
    assert 1.2 < whole < 1.8


def test_a_head_reads_the_target_on_the_way():
    _, target, _ = models()
    config = HeadConfig(
        hidden=HIDDEN, heads=1, kv_heads=1, head_width=HIDDEN, taps=(1, 2), feed_forward=HIDDEN,
        vocabulary=V, draft_vocabulary=V, context=64,
    )  # fmt: skip

    def made():
        drafter = HeadDrafter(HeadModel(tiny_head(config), target, kernels="numpy", exact=True))
        drafter.check(target)
        return drafter

    lengths, part = recorded(target, made(), 6)
    found = walk(lengths, [part], lambda: FixedControl(3), linear(target))
    assert any(moment.path for one in part.replays for moment in one.moments.values())
    assert all(moment.tree.tokens for moment in part.replays[0].moments.values())
    assert found.rounds == sum(engine_rounds(target, made(), num_draft=3))


def test_auto_decides_as_the_engine_does():
    _, target, small = models()
    costs = Costs(target=target.pass_seconds, draft={"model": small.pass_seconds}, fixed=True)
    lengths, suffix = recorded(target, SuffixDrafter(), 15)
    _, model = recorded(target, ModelDrafter(small), 15, small.pass_seconds)
    both = HybridDrafter([SuffixDrafter(), ModelDrafter(small)])
    for drafter, some in ((SuffixDrafter(), [suffix]), (both, [suffix, model])):
        pace = Pace(costs)
        found = walk(lengths, some, lambda pace=pace: AdaptiveControl(pace), linear(target))
        expected = sum(engine_rounds(target, drafter, costs=costs))
        assert found.rounds == pytest.approx(expected, abs=2)
        assert found.rounds < 0.8 * LENGTH * len(PROMPTS), "it pays"


def test_seconds_are_passes_and_drafting():
    _, target, small = models()
    lengths, part = recorded(target, ModelDrafter(small), 15, small.pass_seconds)
    part.seconds = tuple(0.1 * n for n in range(1, 16))
    found = walk(lengths, [part], lambda: FixedControl(2), linear(target), clock=lambda: 0.0)
    rows = found.rounds + found.drafted
    passes = found.rounds * (target.pass_seconds[0] - 0.05) + 0.05 * rows
    assert found.seconds > passes + 0.2 * (found.rounds - 2 * len(PROMPTS))
    assert found.seconds < passes + 0.21 * found.rounds


@pytest.mark.parametrize("reads", [True, False], ids=["a model", "the target's layers"])
def test_who_has_a_cache_of_its_own_must_read_what_it_missed(reads):
    _, target, small = models()
    _, part = recorded(target, ModelDrafter(small), 15, tuple(0.1 * n for n in range(1, 40)))
    part.reads, part.seconds = reads, (0.1, 0.2)
    part.begin(0, prompt=20)
    part.stand(0, 0, 10, random.Random(1))
    for _ in range(9):
        part.went(0, 1, 0)
    assert part.takes({0: 2}) == pytest.approx(0.2 + 0.1 * 28 * reads)
    part.went(0, 2, 1)
    assert part.outlook(0, 30, 9).unread == (2 if reads else 1)


def test_requests_share_rounds():
    _, target, _ = models()
    lengths, part = recorded(target, SuffixDrafter(), 15)
    one = walk(lengths, [part], lambda: FixedControl(3), linear(target), clock=lambda: 0.0)
    costs = linear(target, slots=4)
    four = walk(lengths, [part], lambda: FixedControl(3), costs, clock=lambda: 0.0)
    assert four.tokens_per_pass == pytest.approx(one.tokens_per_pass, rel=0.15)
    assert four.rate > 2 * one.rate, "a row costs a twentieth of a pass"
