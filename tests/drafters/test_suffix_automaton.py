"""The automaton against a scan of the text."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forerun.drafters.suffix_automaton import ROOT, SuffixAutomaton

small_texts = st.integers(1, 3).flatmap(lambda v: st.lists(st.integers(0, v), max_size=40))
depths = st.integers(1, 6)


def automaton(text: list[int], depth: int = 32) -> SuffixAutomaton:
    made = SuffixAutomaton(depth)
    made.extend(text)
    return made


def occurrences(text: list[int], part: list[int]) -> int:
    return sum(text[i : i + len(part)] == part for i in range(len(text) - len(part) + 1))


def followers(text: list[int], part: list[int]) -> tuple[int, int] | None:
    """The most frequent token after `part` and its count, ties to the latest; None without one."""
    n = len(part)
    after = [text[i + n] for i in range(len(text) - n) if text[i : i + n] == part]
    if not after:
        return None
    count = Counter(after)
    token = max(count, key=lambda x: (count[x], len(after) - after[::-1].index(x)))
    return token, count[token]


@given(small_texts, depths)
def test_counts_are_exact_up_to_depth_and_one(text: list[int], depth: int) -> None:
    made = automaton(text, depth)
    for n in range(1, depth + 2):
        for i in range(len(text) - n + 1):
            part = text[i : i + n]
            assert made.count(part) == occurrences(text, part)
    assert made.count([9]) == 0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_counts_of_all_short_texts(depth: int) -> None:
    for bits in product((0, 1), repeat=9):
        text = list(bits)
        made = automaton(text, depth)
        for n in range(1, depth + 2):
            for part in {bits[i : i + n] for i in range(10 - n)}:
                assert made.count(part) == occurrences(text, list(part))


@given(small_texts, depths)
def test_the_context_is_the_longest_suffix_followed_before(text: list[int], depth: int) -> None:
    longest = 0
    for n in range(1, min(depth, len(text)) + 1):
        if followers(text, text[len(text) - n :]):
            longest = n
    state, length = automaton(text, depth).context()
    assert length == longest
    assert (state == ROOT) is (longest == 0)


@given(small_texts, depths)
def test_each_step_is_the_scan_of_its_context(text: list[int], depth: int) -> None:
    """Follow ten steps; the context is the longest known suffix of the last `depth` tokens."""
    made = automaton(text, depth)
    state, length = made.context()
    context = text[len(text) - length :]
    for _ in range(10):
        step = made.follow(state)
        ended = 0
        while context and followers(text, context) is None:
            context, ended = context[1:], 1
        if step is None:
            assert not context
            return
        token, share, state = step
        found = followers(text, context)
        assert found is not None
        assert token == found[0]
        assert share == found[1] / (occurrences(text, context) - ended)
        context = [*context, token][-depth:]


@given(small_texts, st.data())
def test_equal_texts_give_equal_states(text: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    pieces = automaton(text[:cut], 4)
    pieces.extend(text[cut:])
    assert pickle.dumps(pieces) == pickle.dumps(automaton(text, 4))


def test_worked_example() -> None:
    made = automaton([0, 1, 0, 1])
    assert made.count([0, 1]) == made.count([1]) == 2
    assert made.count([0, 1, 0]) == made.count([1, 0]) == 1
    state, length = made.context()
    assert length == 2
    token, share, _ = made.follow(state) or (None, None, None)
    assert (token, share) == (0, 0.5), "seen once, of two occurrences"
