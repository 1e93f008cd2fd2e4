"""Heads as drafters. A target that has read just what the text says stands in for the engine's."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from forerun.certify.suite import TWIG
from forerun.certify.tiny_head import tiny_head, tiny_mlp_head
from forerun.drafters import (
    Drafter,
    HeadDrafter,
    HeadGreedyPlusOneTreeDrafter,
    HeadJoinedTreeDrafter,
    HeadSampledTreeDrafter,
    HeadTreeDrafter,
    HybridDrafter,
    ModelDrafter,
    SuffixDrafter,
    drafter,
)
from forerun.drafters.head import LEAST
from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Abilities, Step
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.mlp_checkpoint import MLPConfig
from forerun.models.heads.mlp_model import MLPHeadModel
from forerun.models.heads.model import HeadModel
from forerun.models.tabular import HIDDEN, LAYERS, TabularModel
from forerun.numerics.distribution import History
from forerun.numerics.token_tree import NOTHING
from forerun.sampling import SamplingParams

from .contract import DrafterContract, V, ask, same, tabular

TAPS = (1, 2)


class Reading(TabularModel):
    """Its slots hold what the drafters below were told of, all but the last token."""

    def read(self, slot: int, text: Sequence[int]) -> None:
        if slot in self._cached:
            self.close(slot)
        self._cached[slot] = ()
        self.extend([Step(slot=slot, tokens=tuple(text[:-1]), rows=0)])


def target() -> Reading:
    return Reading(tabular()._next_law, V, name="reading")


def head_model(**changes: Any) -> HeadModel:
    numbers: dict[str, Any] = {
        "hidden": HIDDEN, "heads": 1, "kv_heads": 1, "head_width": HIDDEN, "taps": TAPS,
        "feed_forward": HIDDEN, "vocabulary": V, "draft_vocabulary": 3, "context": 64,
    }  # fmt: skip
    config = HeadConfig(**(numbers | changes))
    return HeadModel(tiny_head(config), target(), kernels="numpy", exact=True)


class Told:
    """Of a drafter: its target reads what it hears of."""

    def begin(self, slot: int, prompt: Sequence[int], **how: Any) -> None:
        super().begin(slot, prompt, **how)  # type: ignore[misc]
        self.__dict__.setdefault("texts", {})[slot] = list(prompt)
        self._target.read(slot, prompt)  # type: ignore[attr-defined]

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        self.texts[slot] += committed  # type: ignore[attr-defined]
        self._target.read(slot, self.texts[slot])  # type: ignore[attr-defined]
        super().observe(slot, committed)  # type: ignore[misc]

    def end(self, slot: int) -> None:
        super().end(slot)  # type: ignore[misc]
        del self.texts[slot]  # type: ignore[attr-defined]
        self._target.close(slot)  # type: ignore[attr-defined]

    def check(self, target: Any) -> None:
        """It keeps the target that it has."""
        if not hasattr(self, "_target"):
            super().check(target)  # type: ignore[misc]


class ToldHead(Told, HeadDrafter): ...


class ToldTree(Told, HeadTreeDrafter): ...


class ToldJoinedTree(Told, HeadJoinedTreeDrafter): ...


class ToldSampledTree(Told, HeadSampledTreeDrafter): ...


class ToldGreedyPlusOneTree(Told, HeadGreedyPlusOneTreeDrafter): ...


def checked(made: Any) -> Drafter:
    made.check(target())
    return made  # type: ignore[no-any-return]


class HeadContract(DrafterContract):
    def test_end_leaves_nothing_behind(self) -> None:
        made: Any = self.make()
        for slot, text in enumerate(([0, 1, 2], [2, 1], [0])):
            made.begin(slot, text)
            made.propose([ask(slot, text, [])])
        for slot in (1, 0, 2):
            made.end(slot)
        assert made._slots == {}
        assert len(made.model._slots) == 0
        assert made.model.cache_bytes == 0

    def test_a_pickle_goes_on_alike(self) -> None:
        made: Any = self.make()
        made.begin(0, [0, 1, 2])
        made.propose([ask(0, [0, 1, 2], [])])
        made.observe(0, [1, 0])
        copy = pickle.loads(pickle.dumps(made))
        request = ask(0, [0, 1, 2], [1, 0])
        assert same(copy.propose([request])[0], made.propose([request])[0])


class TestHead(HeadContract):
    deterministic = False

    def make(self) -> Drafter:
        return checked(ToldHead(head_model()))


class TestHeadOfShortContext(HeadContract):
    deterministic = False

    def make(self) -> Drafter:
        return checked(ToldHead(head_model(context=16)))


class TestHydra(HeadContract):
    deterministic = False

    def make(self) -> Drafter:
        config = MLPConfig(
            form="hydra", hidden=HIDDEN, width=HIDDEN, depths=3, taps=(LAYERS,), vocabulary=V,
            draft_vocabulary=3,
        )  # fmt: skip
        return checked(ToldHead(MLPHeadModel(tiny_mlp_head(config), target(), kernels="numpy")))


class TestHeadTree(HeadContract):
    chain = False
    cached = True

    def make(self) -> Drafter:
        return checked(ToldTree(head_model(), depth=3))


class TestHeadJoinedTree(HeadContract):
    chain = False
    cached = True

    def make(self) -> Drafter:
        return checked(ToldJoinedTree(head_model(), depth=3))


class TestHeadSampledTree(HeadContract):
    deterministic = False
    chain = False

    def make(self) -> Drafter:
        return checked(ToldSampledTree(head_model(), shape=TWIG))


class TestHeadGreedyPlusOneTree(HeadContract):
    deterministic = False
    chain = False

    def make(self) -> Drafter:
        return checked(ToldGreedyPlusOneTree(head_model(), shape=TWIG))


def test_laws_are_the_head_s_own_after_its_own_output() -> None:
    """A draft of three, against passes by hand: features of the target, then of the head."""
    made: Any = checked(ToldHead(head_model()))
    text = [0, 1, 2, 2, 1]
    made.begin(0, text)
    (proposal,) = made.propose([ask(0, text, [], 3)])
    model = head_model()
    states = made._target.features(0)
    slot = model.open()
    feed = model.feature(states)
    logits = model.extend([Step(slot=slot, tokens=tuple(text[1:]), rows=1, feed=feed)])[0][0]
    for token, q in zip(proposal.tree.tokens, proposal.q, strict=True):
        w = np.exp(logits - logits.max())
        q = np.asarray(q)
        np.testing.assert_allclose(q[model.ids], w / w.sum(), rtol=1e-12)
        assert q.sum() == pytest.approx(1)
        last = model.features(slot)[-1:]
        logits = model.extend([Step(slot=slot, tokens=(token,), feed=last)])[0][0]


def test_laws_by_the_target_s_ids() -> None:
    """What shapes a law by ids; and what is much less likely than another is left out."""
    made: Any = checked(ToldHead(head_model()))
    ids, text = made.model.ids, [0, 1, 2]
    logits = np.array([0.0, -8.0, -8.5])
    assert np.exp(-8.5) < LEAST < np.exp(-8.0)
    q = np.exp(logits) / np.exp(logits).sum()
    history = History(text, 2)
    cases = [
        ({}, [*(q[:2] / q[:2].sum()), 0]),
        ({"min_p": 0.001}, [1, 0, 0]),
        ({"temperature": 2.0}, np.exp(logits / 2) / np.exp(logits / 2).sum()),
        ({"temperature": 0.0}, [1, 0, 0]),
        ({"top_k": 1}, [1, 0, 0]),
        ({"logit_bias": {int(ids[1]): 8.0}}, [0.5, 0.5, 0]),
        ({"banned": [int(ids[0])]}, [0, *(q[1:] / q[1:].sum())]),
    ]
    for sampling, wanted in cases:
        params = made._shaped(SamplingParams.of(sampling))
        found = np.asarray(made._law(logits, params, history, None))
        assert found.shape == (V,)
        np.testing.assert_allclose(found[ids], wanted, rtol=1e-5)
        assert found.sum() == pytest.approx(1)
    allowed = np.zeros(V, bool)
    allowed[ids[2]] = True
    found = made._law(logits, SamplingParams(), history, allowed)
    assert np.asarray(found)[ids].tolist() == [0, 0, 1]


def test_nothing_is_drafted_without_features_from_the_beginning_on() -> None:
    made: Any = checked(ToldHead(head_model()))
    made.begin(0, [0, 1, 2])
    assert made.outlook(0, 3, 4).most == 4
    made._target._features.forget(0)
    assert made.outlook(0, 3, 4).most == 0
    assert made.propose([ask(0, [0, 1, 2], [])]) == [NOTHING]
    made.begin(1, [2])
    assert made.outlook(1, 1, 4).most == 0  # no pair yet


def test_refusals() -> None:
    with pytest.raises(OptionError, match="a head is a HeadModel"):
        HeadDrafter(tabular())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="--head"):
        drafter("suffix+head")
    mute, one = target(), target()
    mute.abilities = Abilities()
    with pytest.raises(CapabilityError, match="hands out no hidden states"):
        HeadDrafter(head_model()).check(mute)
    HeadDrafter(head_model()).check(one)
    with pytest.raises(CapabilityError, match="share a model"):
        HeadDrafter(head_model(taps=(0, 1))).check(one)


def test_in_cascade_each_follows_the_text() -> None:
    both = drafter("suffix+head", head=head_model())
    assert isinstance(both, HybridDrafter)
    assert both.traits.laws
    assert both.traits.chain
    three = drafter("suffix+model+head", head=head_model(), model=tabular(2))
    assert [type(part) for part in three.parts.values()] == [  # type: ignore[union-attr]
        SuffixDrafter, ModelDrafter, HeadDrafter,
    ]  # fmt: skip


def test_a_joined_tree_has_branches_of_head_and_lookup() -> None:
    made: Any = checked(ToldJoinedTree(head_model(), depth=2))
    (other,) = set(range(V)) - set(made.model.ids.tolist())  # never the head's
    text = [other, 0] * 5 + [other]
    made.begin(0, text)
    (found,) = made.propose([ask(0, text, [])])
    paths = {found.tree.path_tokens(node) for node in range(len(found.tree))}
    assert (0, other) in paths, "what the text did before"
    assert {path[0] for path in paths} > {0}, "what the head says instead"
    assert set(found.q) == {None}
