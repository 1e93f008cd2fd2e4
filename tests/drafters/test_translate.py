"""One text in two tokenizations: what the draft model reads, and what comes back."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from forerun.certify.vocabularies import of_pieces
from forerun.drafters.translate import LONGEST, PIECE, Reading, Translator, encoded, piece_end
from forerun.text.tokenizer import Tokenizer
from text.tiny import PIECES, sentencepiece, tokenizer

BYTES = tokenizer()  # single bytes, "he", "ll", "hell", "hello", " hello", "  ", "12"
MARKED = sentencepiece(add_bos_token=False)  # "▁", "h", …, "hello", "▁hello", and byte fallback
WORDS = of_pieces([b"he", b"llo", b" ", b"h", b"l", b"o", b"lo", b"e", b"w", "é".encode()], ["<x>"])


def between(target: Tokenizer, draft: Tokenizer) -> Translator:
    return Translator(target, draft, (target.vocab_size, draft.vocab_size))


def told(translator: Translator, ids: Sequence[int], cuts: Sequence[int] = ()) -> Reading:
    """A reading of `ids` that come in parts."""
    edges = [0, *sorted(cuts), len(ids)]
    reading = translator.begin(ids[: edges[1]])
    for start, stop in pairwise(edges[1:]):
        translator.read(reading, ids[start:stop])
    return reading


@pytest.mark.parametrize("draft", [BYTES, MARKED, WORDS], ids=["bytes", "marked", "words"])
@pytest.mark.parametrize("target", [BYTES, MARKED], ids=["bytes", "marked"])
def test_a_reading_does_not_depend_on_how_the_text_came(
    target: Tokenizer, draft: Tokenizer
) -> None:
    translator, dice = between(target, draft), random.Random(3)
    for size in (5, 40, 300, 1500):
        text = "".join(dice.choices(["hello", " hello", "he", " ", "\n", "é", "語", "12"], k=size))
        ids = target.encode(text)
        whole = told(translator, ids)
        assert whole.settled <= len(whole.ids)
        for _ in range(4):
            assert told(translator, ids, dice.choices(range(len(ids)), k=size // 3)) == whole
        if draft is not WORDS and size < 100:
            assert draft.decode(whole.ids) == text


def test_short_texts_are_read_as_the_drafts_own_tokenizer_does() -> None:
    for text in ("hello hello", " hello", "he llo\n hello", "héllo"):
        for target, draft in ((BYTES, MARKED), (MARKED, BYTES)):
            reading = told(between(target, draft), target.encode(text))
            assert reading.ids == draft.encode(text)


def test_pieces_go_on_without_a_space_of_their_own() -> None:
    text = "hello " * 60 + "hello"
    reading = told(between(BYTES, MARKED), BYTES.encode(text))
    assert reading.settled > 0
    assert MARKED.decode(reading.ids) == text
    assert reading.ids == MARKED.encode(text)
    assert encoded(MARKED, " hello", True) == MARKED.encode("hello")
    assert MARKED.token_bytes(encoded(MARKED, "hello", True)[0]) == b"hello"


def test_what_was_read_changes_where_the_text_grows() -> None:
    translator = between(WORDS, BYTES)
    reading = translator.begin(WORDS.encode("he"))
    assert BYTES.decode(reading.ids) == "he"
    translator.read(reading, WORDS.encode("llo"))
    assert reading.ids == BYTES.encode("hello"), "one token now"


def test_the_end_of_a_piece() -> None:
    word = "x" * PIECE
    assert piece_end(word) == piece_end(word + " ") == 0
    assert piece_end(word + " y") == PIECE
    assert piece_end(word + " 1 y") == PIECE + 2
    assert piece_end(word + "\n y") == 0, "a space behind a space may belong to it"
    assert piece_end("x" * (LONGEST + 1)) == 0
    assert piece_end("x" * (LONGEST + 2)) == LONGEST


class TestCharactersInParts:
    IDS = BYTES.encode("é")

    def test_bytes_the_draft_has_are_read_as_they_are(self) -> None:
        assert len(self.IDS) == 2
        translator = between(BYTES, MARKED)
        reading = told(translator, self.IDS[:1])
        assert reading.whole
        assert [MARKED.token_bytes(i) for i in reading.ids] == [b"\xc3"]
        translator.read(reading, self.IDS[1:])
        assert reading.ids == MARKED.encode("é")

    def test_bytes_it_lacks_leave_it_without_a_text_until_the_character_is_whole(self) -> None:
        translator = between(BYTES, WORDS)
        reading = told(translator, self.IDS[:1])
        assert not reading.whole
        translator.read(reading, self.IDS[1:])
        assert reading.whole
        assert WORDS.decode(reading.ids) == "é"

    def test_bytes_that_become_no_character(self) -> None:
        translator = between(BYTES, MARKED)
        reading = told(translator, [*self.IDS[:1], *BYTES.encode("h")])
        assert MARKED.decode(reading.ids) == "\ufffdh"

    def test_a_draft_inside_a_character_goes_on_with_it(self) -> None:
        translator = between(BYTES, MARKED)
        reading = told(translator, self.IDS[:1])
        assert translator.back(reading, b"\xa9h") == [self.IDS[1], *BYTES.encode("h")]
        assert translator.back(reading, b"") == []


class TestSpecialTokens:
    def test_the_same_name_is_the_same_token(self) -> None:
        ends = [*PIECES, ("<|im_end|>", 0.0, 3)]
        draft = sentencepiece(ends, add_bos_token=False)
        translator = between(BYTES, draft)
        end = draft.vocab_size - 1
        assert translator.to_draft[2] == end
        ids = [*BYTES.encode("hello"), 2, *BYTES.encode("he")]
        assert told(translator, ids).ids == [*draft.encode("hello"), end, *draft.encode("he")]

    def test_others_are_left_out_and_their_names_are_text(self) -> None:
        translator = between(BYTES, MARKED)
        assert told(translator, [1, *BYTES.encode("he"), 2]).ids == MARKED.encode("he")
        spelled = BYTES.encode("<|im_end|>")
        assert 2 not in spelled
        assert told(translator, spelled).ids == MARKED.encode("<|im_end|>")

    def test_the_drafts_own_beginning_stands_for_the_targets(self) -> None:
        draft = sentencepiece(add_bos_token=True)
        target = tokenizer(add_bos_token=True)
        assert draft.adds_bos
        hello = BYTES.encode("hello")
        for ids in (hello, [target.bos, *hello]):
            assert told(between(target, draft), ids).ids == [draft.bos, *draft.encode("hello")]


class TestBack:
    TRANSLATOR = between(WORDS, BYTES)

    def back(self, text: str, drafted: str) -> list[str]:
        reading = told(self.TRANSLATOR, WORDS.encode(text))
        found = self.TRANSLATOR.back(reading, drafted.encode())
        return [WORDS.token_bytes(i).decode() for i in found]

    def test_what_stands_behind_the_text(self) -> None:
        assert self.back("he", "llo w") == ["llo", " ", "w"]
        assert self.back("", "hello") == ["he", "llo"]

    def test_a_seam_that_the_tokenizer_would_close_is_kept(self) -> None:
        assert self.back("hel", "lo he") == ["lo", " ", "he"], "not he·llo"

    def test_a_text_that_was_not_written_as_the_tokenizer_would(self) -> None:
        letters = [WORDS.encode(letter)[0] for letter in "hello"]
        reading = told(self.TRANSLATOR, letters)
        assert self.TRANSLATOR.back(reading, b" w") == WORDS.encode(" w")

    def test_a_space_that_was_put_before_the_text(self) -> None:
        translator = between(MARKED, BYTES)
        for text in ("hello", " hello", "he"):
            reading = told(translator, MARKED.encode(text))
            assert translator.back(reading, b" hello") == MARKED.encode("hello")

    def test_in_a_later_piece(self) -> None:
        text = "hello " * 60
        for target in (BYTES, MARKED):
            translator = between(target, WORDS)
            ids = target.encode(text)
            reading = told(translator, ids)
            assert reading.goes_on
            assert target.decode([*ids, *translator.back(reading, b"hello h")]) == text + "hello h"


def test_a_pickle_is_the_two_tokenizers() -> None:
    translator = between(BYTES, MARKED)
    copy = pickle.loads(pickle.dumps(translator))
    assert copy.to_draft == translator.to_draft
    assert pickle.dumps(copy) == pickle.dumps(translator)
