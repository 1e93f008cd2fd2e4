"""Shared tokens, drafted by a model with other ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from forerun import Engine
from forerun.certify.vocabularies import of_pieces
from forerun.drafters import IntersectionDrafter, ModelDrafter, StringMatchDrafter
from forerun.errors import CapabilityError, VocabularyError
from forerun.models.base import Abilities
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import Drawn, Proposal

from .contract import ask

TARGET = [b"a", b"b", b"ab", b"c"]
DRAFT = [b"x", b"c", b"b", b"a", b"aa"]  # shared: the target's 0, 1, 3 are 3, 2, 1
LAW = [0.5, 0.05, 0.15, 0.2, 0.1]
FREE: dict[str, Any] = {"eos": frozenset()}


def model(tokens: Sequence[bytes] | None, law: Sequence[float], name: str = "draft") -> Any:
    made = None if tokens is None else of_pieces(tokens)
    return TabularModel(lambda prefix: law, len(law), tokenizer=made, name=name)


def target(tokens: Sequence[bytes] | None = TARGET) -> Any:
    return model(tokens, [0.25] * 4, "target")


def drafter(law: Sequence[float] = LAW, **options: Any) -> IntersectionDrafter:
    made = IntersectionDrafter(model(DRAFT, law), **options)
    made.check(target())
    return made


def propose(
    one: IntersectionDrafter, prompt: list[int], num_draft: int, **sampling: Any
) -> Proposal:
    one.begin(0, prompt)
    return one.propose([ask(0, prompt, [], num_draft, **FREE, **sampling)])[0]


def test_q_is_the_drafts_law_of_shared_tokens_in_the_targets_order() -> None:
    proposal = propose(drafter(), [0, 1], 3)
    assert len(proposal) == 3
    assert proposal.drawn is Drawn.SAMPLED
    for q in proposal.q:
        np.testing.assert_allclose(q, np.array([0.2, 0.15, 0.0, 0.05]) / 0.4)


def test_sampling_controls_come_after_the_restriction() -> None:
    """Top-k and top-p choose among the shared tokens; bans and biases have the target's ids."""
    for options, expected in (
        ({"top_k": 1}, [1, 0, 0, 0]),
        ({"top_p": 0.6}, [4 / 7, 3 / 7, 0, 0]),
        ({"banned": (0,)}, [0, 3 / 4, 0, 1 / 4]),
        ({"temperature": 0}, [1, 0, 0, 0]),
        ({"logit_bias": {2: 50.0}}, [1 / 2, 3 / 8, 0, 1 / 8]),
    ):
        np.testing.assert_allclose(propose(drafter(), [0], 1, **options).q[0], expected)


def test_a_processor_may_choose_what_the_draft_does_not_have() -> None:
    def revive(ids: Sequence[int], logits: Any) -> Any:
        logits[2] = 99.0
        return logits

    assert propose(drafter(), [0], 3, processors=(revive,)).tree.tokens == (2,)


def test_drafting_stops_where_no_shared_token_has_mass() -> None:
    assert len(propose(drafter([0.6, 0, 0, 0, 0.4]), [0], 3)) == 0

    def ends(prefix: tuple[int, ...]) -> list[float]:
        return [1.0, 0, 0, 0, 0] if len(prefix) > 2 else LAW

    made = IntersectionDrafter(TabularModel(ends, 5, tokenizer=of_pieces(DRAFT)))
    made.check(target())
    assert len(propose(made, [0], 4)) == 2


def test_the_model_reads_its_own_tokens() -> None:
    """The text as its tokenizer cuts it, drafted tokens as they are."""
    made = drafter(sampling={"temperature": 0})
    assert propose(made, [0, 0, 1, 2], 3).tree.tokens == (0, 0, 0)
    assert made.model._cached[0] == (4, 2, 3, 2, 3, 3), "aa b a b, then a a; the last is not run"
    made.observe(0, [0, 0, 3])
    assert made.model._cached[0] == (4, 2, 3, 2), "the drafts a a are read as aa now"
    (proposal,) = made.propose([ask(0, [0, 0, 1, 2], [0, 0, 3], 1, **FREE)])
    assert len(proposal) == 1
    assert made.model._cached[0] == (4, 2, 3, 2, 4, 1)
    made.end(0)


def test_a_text_that_the_draft_cannot_read_is_not_followed() -> None:
    law = [0.2] * 5
    made = IntersectionDrafter(model([b"x", b"b", b"y", b"z", b"w"], law))
    made.check(target())
    assert len(propose(made, [0, 3], 2)) == 0, "a c: none of its letters"
    made.observe(0, [1])
    (proposal,) = made.propose([ask(0, [0, 3], [1], 2, **FREE)])
    assert proposal.tree.tokens == (1, 1)


def test_what_is_refused_before_anything_runs() -> None:
    strange = model([b"x", b"y"], [0.5, 0.5], "greek")
    with pytest.raises(VocabularyError, match="target and greek have no token of text in common"):
        Engine(target(), IntersectionDrafter(strange))
    Engine(target(), StringMatchDrafter(strange))
    for kind in (IntersectionDrafter, StringMatchDrafter):
        with pytest.raises(VocabularyError, match="draft has no tokenizer, so that drafter"):
            Engine(target(), kind(model(None, LAW)))
        with pytest.raises(VocabularyError, match="target has no tokenizer"):
            Engine(target(None), kind(model(DRAFT, LAW)))
        fixed = model(DRAFT, LAW, "mamba")
        fixed.abilities = Abilities(rollback=False)
        with pytest.raises(CapabilityError, match="mamba cannot draft: its cache cannot roll back"):
            Engine(target(), kind(fixed))
    with pytest.raises(VocabularyError, match="goes with drafter 'intersection' or 'string-match'"):
        Engine(target(), ModelDrafter(model(DRAFT, LAW)))


def test_special_tokens_alone_are_nothing_in_common() -> None:
    ours, theirs = of_pieces([b"a"], ["<end>"]), of_pieces([b"b"], ["<end>"])
    made = IntersectionDrafter(TabularModel(lambda prefix: [0.5, 0.5], 2, tokenizer=theirs))
    with pytest.raises(VocabularyError, match="no token of text in common"):
        made.check(TabularModel(lambda prefix: [0.5, 0.5], 2, tokenizer=ours))


def test_torch_logits_stay_torch() -> None:
    torch = pytest.importorskip("torch")
    row = drafter()._intersection(torch.arange(5.0))
    assert row.tolist() == [3.0, 2.0, -np.inf, 1.0]
    assert isinstance(row, torch.Tensor)
