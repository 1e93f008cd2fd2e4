"""Each pre-tokenizer type cuts as llama.cpp does, or as the original where that differs."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from forerun.errors import ModelFileError
from forerun.text.pretokenizers import PRE_TOKENIZERS, pre_tokenizer

DATA = json.loads((Path(__file__).parents[1] / "data" / "pretokenizers.json").read_text())
CUTS = {kind: family["cuts"] for family in DATA["families"] for kind in family["kinds"]}


def beyond_llama_cpp(kind: str, text: str) -> bool:
    """Where llama.cpp says itself that its pattern only comes near the model's own.

    It has no \\p{M} and no \\p{Lu} for letters beyond ASCII, and hides wide spaces from patterns
    that list characters.
    """
    if kind in ("tekken", "gpt-4o", "llama4"):
        return any(unicodedata.category(c) in ("Mn", "Mc", "Lu") and c > "\x7f" for c in text)
    if kind in ("deepseek-llm", "deepseek-coder"):
        return any(c.isspace() and c > "\u07ff" for c in text)
    return False


@pytest.mark.parametrize("kind", PRE_TOKENIZERS)
def test_cuts(kind: str) -> None:
    build = pre_tokenizer(kind).build()
    for text, cuts in zip(DATA["prompts"], CUTS[kind], strict=True):
        if not beyond_llama_cpp(kind, text):
            assert [len(piece) for piece, _ in build.pre_tokenize_str(text)] == cuts, text


@pytest.mark.parametrize("kind", PRE_TOKENIZERS)
def test_no_text_is_lost(kind: str) -> None:
    build = pre_tokenizer(kind).build()
    for text in DATA["prompts"]:
        assert sum(len(piece) for piece, _ in build.pre_tokenize_str(text)) == len(text.encode())


def test_marks_stay_with_their_letters_where_the_original_keeps_them() -> None:
    pieces = pre_tokenizer("tekken").build().pre_tokenize_str("cafe\u0301 x")
    assert [span for _, span in pieces] == [(0, 5), (5, 7)]


def test_an_unknown_type_is_an_error_not_a_guess() -> None:
    with pytest.raises(ModelFileError, match=r"'qwen9' is unknown.*Known: chatglm-bpe, .*smollm"):
        pre_tokenizer("qwen9")
