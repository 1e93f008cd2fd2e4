"""Prompt lookup."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.drafters import NgramDrafter
from forerun.errors import OptionError

from .contract import ask


def guess(prompt: list[int], count: int, **options: int) -> list[int]:
    drafter = NgramDrafter(**options)
    drafter.begin(0, prompt)
    return list(drafter.propose([ask(0, prompt, [], count)])[0].tree.tokens)


def reference(text: list[int], longest: int, shortest: int, count: int) -> list[int]:
    for n in range(min(longest, len(text)), shortest - 1, -1):
        for start in range(len(text) - n - 1, -1, -1):
            if text[start : start + n] == text[-n:]:
                grown = list(text)
                for i in range(count):
                    grown.append(grown[start + n + i])
                return grown[len(text) :]
    return []


def test_worked_examples() -> None:
    assert guess([1, 2, 4, 5, 1, 2], 3) == [4, 5, 1]
    assert guess([5, 6, 5, 7, 5], 2) == [7, 5], "the most recent occurrence"
    assert guess([9, 1, 2, 7, 8, 2, 6, 1, 2], 1) == [7], "the longest match comes first"
    assert guess([1, 2, 1, 2], 5) == [1, 2, 1, 2, 1], "copied over itself"
    assert guess([7, 7], 4) == [7, 7, 7, 7]


def test_lookup_without_a_match() -> None:
    assert guess([1, 2, 4, 5], 3) == []
    assert guess([1], 3) == [], "one-token prompt"
    assert guess([1, 1], 3, longest=5, shortest=3) == [], "prompt shorter than the n-gram"
    assert guess([1, 2, 9, 2], 3, longest=3, shortest=2) == [], "only a unigram matches"


def test_the_draft_stops_at_an_end() -> None:
    prompt = [1, 2, 3, 1, 2]
    drafter = NgramDrafter()
    drafter.begin(0, prompt)
    assert drafter.propose([ask(0, prompt, [])])[0].tree.tokens == (3,)
    assert drafter.propose([ask(0, prompt, [], stop_ids=(1,))])[0].tree.tokens == (3,)


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=25),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_the_index_finds_what_a_scan_finds(text: list[int], a: int, b: int, count: int) -> None:
    longest, shortest = max(a, b), min(a, b)
    expected = reference(text, longest, shortest, count)
    assert guess(text, count, longest=longest, shortest=shortest) == expected


@pytest.mark.parametrize(
    "options",
    [{"longest": 0}, {"shortest": 0}, {"longest": True}, {"longest": "3"}, {"shortest": 1.0}],
)
def test_lengths_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="whole number of at least 1"):
        NgramDrafter(**options)


def test_the_order_of_lengths_is_checked() -> None:
    with pytest.raises(OptionError, match=r"shortest \(4\) must be at most longest \(3\)"):
        NgramDrafter(shortest=4)
