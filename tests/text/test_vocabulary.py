"""Do two models number their tokens alike?"""

from __future__ import annotations

import pytest

from forerun.errors import VocabularyError
from forerun.text.vocabulary import check_shared, common

from .tiny import metadata, of_pieces, sentencepiece, tokenizer

TOKENS = metadata()["tokenizer.ggml.tokens"]
TYPES = metadata()["tokenizer.ggml.token_type"]


def test_the_same_vocabulary_is_shared_whole() -> None:
    assert check_shared(tokenizer(), tokenizer()) == 267


def test_a_longer_one_shares_its_beginning() -> None:
    longer = tokenizer(tokens=[*TOKENS, "zz", "yy"], token_type=[*TYPES, 1, 1])
    assert check_shared(longer, tokenizer()) == check_shared(tokenizer(), longer) == 267


def test_the_first_difference_is_named() -> None:
    other = list(TOKENS)
    other[150], other[200] = other[200], other[150]
    with pytest.raises(VocabularyError, match=r"id 150 is '.+' for the target.* for the draft"):
        check_shared(tokenizer(), tokenizer(tokens=other))


def test_the_first_difference_says_what_to_do() -> None:
    with pytest.raises(VocabularyError, match="drafter 'intersection' or 'string-match'"):
        check_shared(of_pieces([b"a", b"b"]), of_pieces([b"b", b"a"]))


def test_common_tokens_are_those_of_the_same_bytes() -> None:
    ours, theirs = of_pieces([b"a", b" the", b"x"], ends=1), of_pieces([b"the", b" the", b"a"], 2)
    assert common(ours, theirs) == {0: 2, 1: 1, 3: 3}, "and the end of the same name"
    assert common(theirs, ours) == {2: 0, 1: 1, 3: 3}
    assert common(of_pieces([b"a"], 0), of_pieces([b"b"], 0)) == {}


def test_a_special_tokens_name_is_not_its_text() -> None:
    assert common(of_pieces([b"<end0>"], 0), of_pieces([b"x"], ends=1)) == {}


def test_byte_level_and_marked_spaces() -> None:
    """` hello` is `Ġhello` here and `▁hello` there; `h` is no byte fallback, a newline is."""
    ours, theirs = tokenizer(), sentencepiece()
    found = common(ours, theirs)
    text = {ours.token_bytes(i): theirs.token_text(own) for i, own in found.items()}
    assert text[b" hello"] == " hello"
    assert found[ours.encode("h")[0]] == 260, "not <0x68>, which is 107"
    assert found[ours.encode("\n")[0]] == 3 + ord("\n")
    assert found[ours.encode("\xe9")[0]] == 3 + 0xC3, "a part of a character"
    assert len(set(found.values())) == len(found)
    assert all(ours.token_bytes(i) == theirs.token_bytes(own) for i, own in found.items())
    assert sentencepiece().fallback == frozenset(range(3, 259))
    assert tokenizer().fallback == frozenset()
