"""GGUF metadata as a vocabulary: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from forerun.errors import ModelFileError
from forerun.text.byte_level import from_letters
from forerun.text.tokenizer import Tokenizer

from .tiny import metadata, tokenizer

TOKENS = metadata()["tokenizer.ggml.tokens"]


def test_end_tokens_the_file_names_and_those_it_forgets() -> None:
    assert tokenizer().eos == {0, 2}
    assert tokenizer(eos_token_id=None).eos == {0, 2}
    assert tokenizer(eot_token_id=9).eos == {0, 2, 9}


def test_end_names_count_only_as_control_tokens() -> None:
    types = [4, 3, 3, 4] + [1] * (len(TOKENS) - 4)
    assert tokenizer(token_type=types).eos == {2}


def test_a_named_end_is_special_whatever_its_type() -> None:
    made = tokenizer(token_type=[3, 3, 1, 4] + [1] * (len(TOKENS) - 4))
    assert made.eos == {0, 2}
    assert made.decode([2]) == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"add_bos_token": True}, True),
        ({"add_bos_token": None}, False),
        ({"add_bos_token": None, "pre": "llama-bpe"}, True),
        ({"add_bos_token": True, "bos_token_id": None}, False),
    ],
)
def test_whether_text_starts_with_bos(changes: dict[str, Any], expected: bool) -> None:
    assert tokenizer(**changes).adds_bos is expected


def test_unused_ids_at_the_end_are_padding() -> None:
    made = tokenizer(
        tokens=[*TOKENS, "[PAD267]", "[PAD268]"],
        token_type=[3, 3, 3, 4] + [1] * (len(TOKENS) - 4) + [5, 5],
    )
    assert made.vocab_size == len(TOKENS)


def test_whole_words_skip_merging_where_the_type_says_so() -> None:
    merges = ["h e"]  # "hello" is a token that merging cannot reach
    assert tokenizer(merges=merges).encode("hello") != [TOKENS.index("hello")]
    assert tokenizer(merges=merges, pre="llama-bpe").encode("hello") == [TOKENS.index("hello")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "tokenizer.ggml.model is missing"),
        ({"model": "rwkv"}, "'rwkv' cannot be read.*Known: 'gpt2' .*, 'llama'"),
        ({"pre": None}, "tokenizer.ggml.pre is missing"),
        ({"pre": "smolm"}, "'smolm' is unknown"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing, or not a list of str"),
        ({"tokens": [1, 2]}, "not a list of str"),
        ({"token_type": [1]}, "has 1 entries for 267 tokens"),
        ({"merges": None}, "tokenizer.ggml.merges is missing"),
        ({"merges": ["ab"]}, "'ab', which is not a pair"),
        ({"merges": ["h z"]}, "do not fit together"),
        ({"tokens": [*TOKENS[:-1], "h"]}, "has 'h' twice: 108 and 266"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        tokenizer(**changes)


def test_ids_out_of_range_are_left_out() -> None:
    made = tokenizer(bos_token_id=9999, eos_token_id=-1)
    assert (made.bos, made.eos) == (None, {0, 2})


def test_letters_of_bytes() -> None:
    assert from_letters("ĠhelloĊ") == b" hello\n"
    assert from_letters("日本") == "日本".encode()


def test_from_gguf_needs_no_more_than_a_mapping() -> None:
    assert isinstance(Tokenizer.from_gguf(metadata()), Tokenizer)
