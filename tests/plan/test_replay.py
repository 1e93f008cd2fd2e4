"""What of a draft would be kept, given the text that came out."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from forerun.drafters import (
    ModelDrafter,
    NgramDrafter,
    SampledTreeDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.numerics.token_tree import Drawn
from forerun.numerics.tree_shape import widths
from forerun.plan.replay import chances, replay, survival
from forerun.plan.texts import Asked, write
from forerun.verifiers import verifier
from plan.clocked import mixed, models
from verifiers.trees import Laws, rounds

DEEP = 3


@pytest.mark.parametrize("name", ["rejection", "block"])
@pytest.mark.parametrize("seed", range(6))
def test_the_chance_given_the_text_is_that_of_the_verifier(name, seed):
    """Pr(x_1 … x_i drafted and accepted), enumerated = Pr(text begins so) · survival."""
    laws = Laws(seed)
    found = list(rounds(laws, widths((1,) * DEEP), Drawn.SAMPLED, verifier(name)))
    for text in itertools.product(range(laws.vocabulary), repeat=DEEP):
        p = [float(laws.p(text[:i])[text[i]]) for i in range(DEEP)]
        q = [float(laws.q(text[:i])[text[i]]) for i in range(DEEP)]
        come = 1.0
        for i, chance in enumerate(survival(name, p, q), start=1):
            come *= p[i - 1]
            kept = sum(
                weight
                for weight, proposal, verdict in found
                if len(verdict.path) >= i and proposal.tree.tokens[:i] == text[:i]
            )
            assert kept == pytest.approx(come * chance, abs=1e-12)


def test_block_keeps_no_less_than_rejection():
    p, q = [0.3, 0.6, 0.4], [0.6, 0.3, 0.4]
    for one, other in zip(survival("rejection", p, q), survival("block", p, q)):
        assert other >= one
    assert survival("block", p, q)[1] > survival("rejection", p, q)[1]


def test_p_is_that_of_the_text():
    _, target, _ = models()
    text = write(target, Asked(name="a", prompt=[0, 1]), {"max_tokens": 40, "top_p": 0.9})
    found = chances(target, text)
    assert len(found) == 40
    assert min(found) > 0, "a token that the law cuts off cannot have come"
    ids = [0, 1, *text.output]
    law = mixed(1)(tuple(ids[:10]))
    assert found[8] >= law[ids[10]], "the mass of those that are cut is spread"


def replayed(drafter, size, *, options, **more):
    clock, target, _ = models()
    text = write(target, Asked(name="a", prompt=[0, 1, 2]), {"max_tokens": 48, **options})
    drafter = drafter(target)
    judge = verifier(more.pop("verifier", "coupled"))
    p = chances(target, text)
    return text, replay(target, drafter, judge, text, p, size, clock=clock, **more)


@pytest.mark.parametrize("make", [NgramDrafter, SuffixDrafter, SuffixTreeDrafter])
def test_greedily_what_is_kept_is_what_the_text_says(make):
    text, found = replayed(lambda _: make(), 6, options={"temperature": 0})
    assert list(found.moments) == list(range(48))
    kept = 0
    for at, moment in found.moments.items():
        tokens = [moment.tree.tokens[node] for node in moment.path]
        assert tuple(tokens) == text.output[at : at + len(tokens)]
        assert set(moment.survival) <= {1.0}
        children = moment.tree.children_of(moment.path[-1] if moment.path else -1)
        after = text.output[at + len(tokens) : at + len(tokens) + 1]
        assert not after or after[0] not in [moment.tree.tokens[child] for child in children]
        kept += len(tokens)
    assert kept > 48, "the text repeats itself"


def test_a_drafter_of_laws_is_made_to_draw_the_text():
    _, found = replayed(
        lambda _: ModelDrafter(models()[2]), 4, options={"temperature": 1}, verifier="rejection"
    )
    lengths = [len(moment.path) for at, moment in found.moments.items() if at < 44]
    assert lengths == [4] * 44
    chances_ = [s for moment in found.moments.values() for s in moment.survival]
    assert all(0 < s <= 1 for s in chances_)
    assert any(s < 1 for s in chances_)


def test_seconds_by_token_are_passes_of_the_draft_model():
    clock, target, small = models()
    text = write(target, Asked(name="a", prompt=[0, 1, 2]), {"max_tokens": 24, "temperature": 0})
    found = replay(
        target, ModelDrafter(small), verifier("coupled"), text, [1.0] * 24, 3, clock=clock
    )
    first = small.pass_seconds[0]
    for at in range(1, 20):
        assert found.moments[at].seconds == pytest.approx((first, 2 * first, 3 * first))
    assert found.following == found.looking == 0


@pytest.mark.parametrize(("stride", "passes"), [(1, "(t d d )+"), (3, "(d t d d )+")])
def test_a_draft_is_timed_behind_a_pass_of_the_target(monkeypatch, stride, passes):
    """As in a round, where the target's weights drive the draft model's out of the caches."""
    clock, target, small = models()
    text = write(target, Asked(name="a", prompt=[0, 1, 2]), {"max_tokens": 24, "temperature": 0})
    done = []
    for letter, model in (("t", target), ("d", small)):

        def extend(steps, letter=letter, extend=model.extend):
            done.append(letter)
            return extend(steps)

        monkeypatch.setattr(model, "extend", extend)
    asked = (ModelDrafter(small), verifier("coupled"), text, [1.0] * 24, 2)
    found = replay(target, *asked, stride=stride, most=6, clock=clock)
    assert len(found.moments) == 6
    assert re.fullmatch(passes, "".join(f"{letter} " for letter in done))


def test_trees_that_are_drawn_are_judged_by_the_target(monkeypatch):
    _, found = replayed(
        lambda _: SampledTreeDrafter(models()[2]),
        4,
        options={"temperature": 1},
        verifier="traversal",
        stride=3,
    )
    assert list(found.moments) == list(range(0, 48, 3))
    monkeypatch.setattr("forerun.plan.replay.NEAR", 8)
    for at, first in ((20, 6), (0, 0), (47, 24)):  # eight, in the middle of which it lies
        near = {id(found.near(at, random.Random(seed))) for seed in range(200)}
        assert near == {id(found.moments[first + 3 * i]) for i in range(8)}
    assert any(moment.path for moment in found.moments.values())
    assert all(len(moment.tree) <= 4 for moment in found.moments.values())
