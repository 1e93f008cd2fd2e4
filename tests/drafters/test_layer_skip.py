"""Drafting with some of the target's layers: which are on offer, and what drafts do to a slot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forerun.drafters import DraftRequest, LayerSkipDrafter, drafter
from forerun.drafters.base import models, outlook, ways
from forerun.drafters.layer_skip import ranges, runs
from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Step
from forerun.models.tabular import LayeredTabularModel
from forerun.numerics.token_tree import Drawn

from .contract import END, V, ask, peaked, shallow, tabular

TEXT = [1, 0, 2, 1]


class Counted(LayeredTabularModel):
    """Says which passes were made without some layers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.passes: list[tuple[tuple[int, ...], list[tuple[int, tuple[int, ...]]]]] = []

    def skim(self, steps: Any, skipped: Any) -> list[Any]:
        self.passes.append((tuple(sorted(skipped)), [(s.slot, tuple(s.tokens)) for s in steps]))
        return super().skim(steps, skipped)


def target(layers: int = 8, **options: Any) -> Counted:
    def law(prefix: tuple[int, ...]) -> list[float]:
        return peaked(1, prefix)

    return Counted(law, shallow, layers, V, END, **options)


def seated(model: Counted, *texts: list[int], **options: Any) -> LayerSkipDrafter:
    made = LayerSkipDrafter(**options)
    made.check(model)
    for text in texts:
        slot = model.open()
        model.extend([Step(slot=slot, tokens=text[:-1], rows=0)])
        made.begin(slot, text)
    return made


def request(slot: int, text: list[int], num_draft: int = 3, **options: Any) -> DraftRequest:
    return replace(ask(slot, text, [], num_draft, eos=frozenset()), **options)


def test_runs_on_offer() -> None:
    def spoken(layers: int) -> list[str]:
        return [ranges(one) for one in runs(None, layers)]

    assert spoken(30) == ["3-13", "3-17", "3-10", "7-14"]
    assert spoken(28) == ["3-12", "3-16", "3-9", "7-13"]
    assert spoken(16) == ["2-7", "2-9", "2-5", "4-7"]
    assert spoken(4) == ["1-2", "1"]
    assert spoken(3) == ["1"]
    for layers in range(3, 100):
        for one in runs(None, layers):
            assert 0 < one[0] <= one[-1] < layers - 1
        for skip in range(1, layers - 1):
            (one,) = runs(skip, layers)
            assert len(one) == skip
            assert 0 < one[0] <= one[-1] < layers - 1


def test_ranges() -> None:
    assert ranges((3, 4, 5)) == "3-5"
    assert ranges((0,)) == "0"
    assert ranges((0, 2, 3, 7)) == "0,2-3,7"


def test_sets_are_ways_with_passes_of_their_own() -> None:
    model = target(context=9)
    made = seated(model, TEXT)
    said = ways(made, 0, len(TEXT), 15)
    names = ["layer-skip 1-3", "layer-skip 1-4", "layer-skip 1-2", "layer-skip 2-3"]
    assert [one.passes for one in said] == names
    assert all((one.most, one.unread) == (5, 1) for one in said)
    assert outlook(made, 0, len(TEXT), 2) == replace(said[0], most=2)
    assert list(models(made)) == names
    np.testing.assert_allclose(
        [one.pass_seconds[0] / model.pass_seconds[0] for one in models(made).values()],  # type: ignore[attr-defined]
        [5 / 8, 1 / 2, 3 / 4, 3 / 4],
    )


@pytest.mark.parametrize(
    ("skip", "layers"), [(3, (1, 2, 3)), ([5, 2, 2], (2, 5)), (range(6, 8), (6, 7)), ([0], (0,))]
)
def test_one_set(skip: Any, layers: tuple[int, ...]) -> None:
    model = target()
    made = seated(model, TEXT, skip=skip)
    (said,) = ways(made, 0, len(TEXT), 15)
    assert said.passes == f"layer-skip {ranges(layers)}"
    made.propose([request(0, TEXT)])
    assert {skipped for skipped, _ in model.passes} == {layers}


def test_a_draft_reads_the_last_token_then_its_own_and_leaves_the_slot_alone() -> None:
    model = target()
    made = seated(model, TEXT, skip=[2])
    (found,) = made.propose([request(0, TEXT, 3)])
    assert found.drawn is Drawn.SAMPLED
    read = [steps for _, steps in model.passes]
    assert read == [[(0, (t,))] for t in (TEXT[-1], *found.tree.tokens[:2])]
    assert model.length(0) == len(TEXT) - 1
    assert model._cached[0] == tuple(TEXT[:-1])
    for depth, q in enumerate(found.q):
        np.testing.assert_allclose(
            q, shallow((*TEXT, *found.tree.tokens[:depth]), frozenset({2})), rtol=1e-12
        )


def test_requests_of_one_set_share_passes_and_those_of_others_have_their_own() -> None:
    model, texts = target(), [TEXT, TEXT[:3], [2, 2]]
    made = seated(model, *texts)
    first, second, *_ = made.models
    asked = [
        request(i, text, 2, passes=passes)
        for i, (text, passes) in enumerate(zip(texts, (second, None, first)))
    ]
    found = made.propose(asked)
    assert [(skipped, [slot for slot, _ in steps]) for skipped, steps in model.passes] == [
        ((1, 2, 3), [1, 2]), ((1, 2, 3), [1, 2]), ((1, 2, 3, 4), [0]), ((1, 2, 3, 4), [0]),
    ]  # fmt: skip
    for one, proposal in zip(asked, found):
        (alone,) = made.propose([one])
        assert alone.tree == proposal.tree
    assert [model.length(i) for i in range(3)] == [len(text) - 1 for text in texts]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_slot_is_as_it_was_whatever_breaks(at: int) -> None:
    model = target()
    made = seated(model, TEXT)

    def sample(q: Any, node: int, path: tuple[int, ...]) -> int:
        if node == at:
            raise KeyError("a sampler that breaks")
        return 0

    with pytest.raises(KeyError):
        made.propose([request(0, TEXT, 3, sample=sample)])
    assert model._cached[0] == tuple(TEXT[:-1])


def test_without_memory_for_more_it_drafts_less() -> None:
    model = target(max_memory=8 * (len(TEXT) + 1))  # the last token's, and one drafted one's
    made = seated(model, TEXT)
    (found,) = made.propose([request(0, TEXT, 5)])
    assert len(found) == 2
    assert model._cached[0] == tuple(TEXT[:-1])


def test_logits_that_make_no_law_end_the_draft() -> None:
    def sick(prefix: tuple[int, ...], skipped: frozenset[int]) -> list[float]:
        return [np.nan] * V if len(prefix) > len(TEXT) else shallow(prefix, skipped)

    model = target()
    model._shallow_law = sick
    made = seated(model, TEXT)
    (found,) = made.propose([request(0, TEXT, 5)])
    assert len(found) == 1
    assert model._cached[0] == tuple(TEXT[:-1])


def test_at_the_end_of_the_context() -> None:
    for context in (4, 5, 6):
        model = target(context=context)
        made = seated(model, TEXT)
        (found,) = made.propose([request(0, TEXT, 5)])
        assert len(found) == context - len(TEXT) == outlook(made, 0, len(TEXT), 5).most


def test_a_sampling_of_its_own() -> None:
    made = seated(target(), TEXT, sampling={"temperature": 0})
    (found,) = made.propose([request(0, TEXT, 3)])
    assert all(q.max() == 1 for q in found.q)


@pytest.mark.parametrize("skip", [0, -1, True, 1.5, "3", [], ["a"], [1.5], object()])
def test_what_is_no_set_of_layers(skip: Any) -> None:
    with pytest.raises(OptionError, match="skip is how many layers to leave out, at least 1, or"):
        LayerSkipDrafter(skip)


def test_layers_that_the_target_does_not_have() -> None:
    with pytest.raises(OptionError, match="layers are numbered 0 to 7, and 9 is none of them"):
        LayerSkipDrafter([1, 9]).check(target())
    with pytest.raises(OptionError, match=r"of 8 layers at most 6 can be left out, .* not 7"):
        LayerSkipDrafter(7).check(target())
    with pytest.raises(OptionError, match=r"of 2 layers at most 0 can be left out"):
        LayerSkipDrafter().check(target(2))


def test_a_target_that_cannot_leave_layers_out() -> None:
    with pytest.raises(CapabilityError, match="tabular cannot leave layers out: the native"):
        LayerSkipDrafter().check(tabular())


def test_by_name() -> None:
    made = drafter("layer-skip", skip=3)
    assert isinstance(made, LayerSkipDrafter)
    several = drafter("suffix+layer-skip", skip=[1, 2])
    assert several is not None
    assert several.name == "suffix+layer-skip"
