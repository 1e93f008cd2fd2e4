"""Text drafted by a model with other tokens, in the target's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forerun.certify.vocabularies import of_pieces
from forerun.drafters import StringMatchDrafter
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import Drawn, Proposal

from .contract import ask

TARGET = [b"he", b"llo", b"h", b"e", b"l", b"o", b" "]
LETTERS = [b" ", b"o", b"l", b"e", b"h"]


def says(
    text: str,
    tokens: Sequence[bytes],
    ends: Sequence[str] = (),
    own: Sequence[str] = (),
    **options: Any,
) -> StringMatchDrafter:
    """Drafts `text` from its first token on, over and over, or up to the first of `ends`."""
    tokenizer = of_pieces(tokens, ends)
    ids = tokenizer.encode(text) + ([len(tokens)] if ends else [])
    size = tokenizer.vocab_size

    def law(prefix: tuple[int, ...]) -> Any:
        return np.eye(size)[ids[(len(prefix) - 1) % len(ids)]]

    made = StringMatchDrafter(TabularModel(law, size, tokenizer=tokenizer, **options))
    spoken = of_pieces(TARGET, own)
    made.check(TabularModel(lambda prefix: [1.0], spoken.vocab_size, tokenizer=spoken))
    return made


def drafted(made: StringMatchDrafter, text: list[bytes], num_draft: int, **sampling: Any) -> Any:
    prompt = [TARGET.index(piece) for piece in text]
    made.begin(0, prompt)
    request = ask(0, prompt, [], num_draft, **{"eos": frozenset(), **sampling})
    (proposal,) = made.propose([request])
    assert isinstance(proposal, Proposal)
    assert proposal.drawn is Drawn.DETERMINISTIC
    assert proposal.q == (None,) * len(proposal)
    return [[*TARGET, b"<end>"][token] for token in proposal.tree.tokens]


def test_letters_become_the_targets_tokens() -> None:
    assert drafted(says("hello ", LETTERS), [b" "], 3) == [b"he", b"llo", b" "]


def test_one_token_more_is_drafted_for_the_last_may_grow() -> None:
    made = says("hello ", LETTERS)
    assert drafted(made, [b" "], 1) == [b"he"]
    assert made.model.length(0) == 3, "the text, h and e; the l that follows is not run"


def test_a_draft_inside_a_word_is_cut_as_the_rest_of_it() -> None:
    """h·e is written as it is, though the tokenizer has he."""
    assert drafted(says("ello ", LETTERS), [b"h"], 3) == [b"e", b"llo", b" "]


def test_a_vocabulary_without_a_token_in_common() -> None:
    made = says("hello hello ", [b"hel", b"lo ", b"x"])
    assert not made.translator.to_draft
    assert drafted(made, [b"he"], 3) == []
    made = says("hello ", [b"hel", b"lo h", b"lo ", b"he", b"x"])
    made.translator.to_draft.clear()
    assert drafted(made, [b"he"], 3) == [b"he", b"llo", b" "]


def test_an_end_that_both_have_ends_the_draft() -> None:
    same = says("hello", LETTERS, ["<end>"], ["<end>"])
    assert drafted(same, [b" "], 5) == [b"he", b"llo", b"<end>"]
    other = says("hello", LETTERS, ["</s>"], ["<end>"])
    assert drafted(other, [b" "], 5) == [b"he", b"llo"]


def test_a_stop_id_is_the_last() -> None:
    assert drafted(says("hello ", LETTERS), [b" "], 5, stop_ids=(1,)) == [b"he", b"llo"]


def test_the_drafts_context_bounds_it() -> None:
    assert drafted(says("hello ", LETTERS, context=3), [b" "], 5) == [b"he"]
    assert drafted(says("hello ", LETTERS, context=1), [b" "], 5) == []


def test_logits_that_are_none_end_it() -> None:
    made = says("hello ", LETTERS)
    extend = made.model.extend
    made.model.extend = lambda steps: [rows * np.nan for rows in extend(steps)]  # type: ignore[method-assign]
    assert drafted(made, [b" "], 3) == []


def test_accepted_text_is_not_read_again() -> None:
    made = says("hello ", LETTERS)
    assert drafted(made, [b" "], 3) == [b"he", b"llo", b" "]
    assert made.model.length(0) == 7, "h of the next word is not run"
    made.observe(0, [0, 1])
    assert made.model.length(0) == 6
    (proposal,) = made.propose([ask(0, [6], [0, 1], 2, eos=frozenset())])
    assert proposal.tree.tokens == (6, 0)
