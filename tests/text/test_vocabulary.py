"""Do two models number their tokens alike?"""

from __future__ import annotations

import pytest

from forerun.errors import VocabularyError
from forerun.text.vocabulary import check_shared

from .tiny import metadata, tokenizer

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
