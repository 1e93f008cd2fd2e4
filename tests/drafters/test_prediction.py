"""Following a prediction, and finding the place again."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.drafters import PredictionDrafter
from forerun.errors import OptionError, VocabularyError

from .contract import ask, tabular

ALPHABET = list(range(10, 36))


def after(output: list[int], count: int = 3, tokens: list[int] | None = None) -> list[int]:
    drafter = PredictionDrafter(ALPHABET if tokens is None else tokens)
    drafter.begin(0, [1, 2])
    drafter.observe(0, output)
    return list(drafter.propose([ask(0, [1, 2], output, count, eos=frozenset())])[0].tree.tokens)


def test_it_follows_from_the_beginning() -> None:
    assert after([]) == [10, 11, 12]
    assert after([10, 11]) == [12, 13, 14]
    assert after(ALPHABET[:-1]) == [35]
    assert after(ALPHABET) == []


def test_after_a_replaced_token() -> None:
    assert after([10, 11, 99]) == [13, 14, 15], "taken as a replacement at once"
    assert after([10, 11, 99, 13]) == [14, 15, 16]
    assert after([10, 11, 99, 98, 97, 15]) == [16, 17, 18]


def test_after_inserted_tokens() -> None:
    assert after([10, 11, 99, 12]) == [13, 14, 15]
    assert after([10, 11, 99, 98, 97, 12, 13]) == [14, 15, 16]
    assert after([99, 98, 10, 11]) == [12, 13, 14], "at the beginning"


def test_after_deleted_tokens() -> None:
    assert after([10, 11, 13]) == [14, 15, 16]
    assert after([14]) == [15, 16, 17]


def test_a_far_place_needs_two_tokens() -> None:
    long = list(range(100, 200))
    assert after([100, 101, 180], tokens=long) == [103, 104, 105], "one token says little"
    assert after([100, 101, 180, 181], tokens=long) == [182, 183, 184]


def test_the_longest_match_wins() -> None:
    tokens = [1, 2, 9, 5, 3, 4, 7, 5, 6]
    assert after([1, 4, 7, 5], tokens=tokens) == [6]
    assert after([1, 8, 5], tokens=tokens) == [3, 4, 7], "else the nearest ahead"


def test_a_place_ahead_is_preferred() -> None:
    tokens = [1, 5, 2, 3, 4, 8, 5, 6]
    assert after([1, 5, 2, 99, 5], tokens=tokens) == [6], "the 5 behind is nearer"


def test_a_repeated_passage_goes_back() -> None:
    assert after([10, 11, 12, 13, 14, 10, 11]) == [12, 13, 14]


def test_it_gives_up_until_a_place_is_found() -> None:
    lost = [10, 11, *range(90, 99)]
    assert after(lost[:10]) == ALPHABET[10:13], "eight replaced tokens"
    assert after(lost) == []
    assert after([*lost, 30, 31]) == [32, 33, 34]


def test_no_prediction() -> None:
    assert after([], tokens=[]) == []
    assert after([1, 2], tokens=[]) == []


def test_ids_are_checked() -> None:
    with pytest.raises(OptionError, match="token ids from 0 up, not -1"):
        PredictionDrafter([1, -1])
    with pytest.raises(OptionError, match="token ids from 0 up, not 'a'"):
        PredictionDrafter("a")  # type: ignore[arg-type]
    for wrong in (1.0, None, True, np.array([1.0, 2.0])):
        with pytest.raises(OptionError, match="token ids from 0 up, not "):
            PredictionDrafter([wrong])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="a prediction is a list of token ids, not 5"):
        PredictionDrafter(5)  # type: ignore[arg-type]
    for longest in (0, "8", 1.5):
        with pytest.raises(OptionError, match=f"longest must be .* at least 1, not {longest!r}"):
            PredictionDrafter([1], longest=longest)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="holds id 7, but tabular has ids below 4"):
        PredictionDrafter([0, 7]).check(tabular())
