"""The memory of finished texts: its limit, what goes first, what running requests see."""

from __future__ import annotations

import pickle
import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from forerun.drafters.text_memory import (
    DEPTH,
    GRAM,
    RememberedText,
    TextMemory,
    longest_match,
    votes,
)


def numbered(start: int, count: int = 20) -> list[int]:
    return list(range(start, start + count))


def held(memory: TextMemory) -> list[int]:
    """First tokens of the remembered texts, the most recently used first."""
    return [text.tokens[0] for text in memory.texts()]


def test_the_least_recently_added_goes_first() -> None:
    memory = TextMemory(3 * RememberedText.size(20))
    for start in (0, 100, 200, 300):
        memory.add(numbered(start))
    assert held(memory) == [300, 200, 100]
    assert memory.bytes == 3 * RememberedText.size(20)


def test_a_repeated_text_counts_as_used() -> None:
    memory = TextMemory(3 * RememberedText.size(20))
    for start in (0, 100, 200, 0):
        memory.add(numbered(start))
    assert held(memory) == [0, 200, 100], "not held twice"
    memory.add([*numbered(105, 10), *numbered(400, 10)])
    assert held(memory) == [105, 100, 0], "half of 100's text came again; 200 was the oldest"


def test_what_does_not_fit_is_not_remembered() -> None:
    memory = TextMemory(RememberedText.size(20))
    memory.add(numbered(0))
    memory.add(numbered(100, 21))
    assert held(memory) == [0]
    nothing = TextMemory(0)
    nothing.add([1, 2, 3])
    assert held(nothing) == []


def test_the_bytes_are_not_understated() -> None:
    rng = random.Random(2)
    lengths = [1, 10, 44, 87, 172, 343, 684, 1367, 2732]  # tables grow at two thirds of 2**n
    rows = [[rng.randrange(1000, 60000) for _ in range(n)] for n in lengths]
    memory = TextMemory(1 << 24)
    tracemalloc.start()
    for row in rows:
        memory.add(row)
    real, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(held(memory)) == len(rows)
    assert real <= memory.bytes


def test_a_view_is_fixed() -> None:
    memory = TextMemory(2 * RememberedText.size(20))
    memory.add(numbered(0))
    view = memory.texts()
    memory.add(numbered(100))
    memory.add(numbered(200))
    assert [text.tokens[0] for text in view] == [0]
    assert held(memory) == [200, 100]


def test_equal_histories_give_equal_pickles() -> None:
    memory, again = TextMemory(1 << 16), TextMemory(1 << 16)
    for start in (0, 100, 0):
        memory.add(numbered(start))
    for start in (0, 100):
        again.add(numbered(start))
    again.add(list(pickle.loads(pickle.dumps(numbered(0)))))
    assert pickle.dumps(memory) == pickle.dumps(again)
    assert pickle.dumps(pickle.loads(pickle.dumps(memory))) == pickle.dumps(memory)


def test_tenants_share_the_limit_and_nothing_else() -> None:
    memory = TextMemory(3 * RememberedText.size(20))
    memory.add(numbered(0), "a")
    memory.add(numbered(100), "b")
    memory.add(numbered(0), "b")  # the same text, kept for each of them
    assert [len(memory.texts(tenant)) for tenant in ("a", "b", "")] == [1, 2, 0]
    assert memory.bytes == 3 * RememberedText.size(20)
    memory.add(numbered(100), "b")
    memory.add(numbered(200), "b")
    held = [[text.tokens[0] for text in memory.texts(tenant)] for tenant in ("a", "b")]
    assert held == [[0], [200, 100]], "a's was the oldest, but b has more"
    again = TextMemory(3 * RememberedText.size(20))
    again.add(numbered(0), "a")
    again.add(numbered(100), "a")
    again.add(numbered(200), "a")
    again.add(numbered(0), "b")  # pushes out a's, and uses none of them
    assert [text.tokens[0] for text in again.texts("a")] == [200, 100]


rows = st.lists(st.integers(0, 2), min_size=GRAM, max_size=20)


@given(st.lists(rows, max_size=3), rows)
def test_the_longest_match_is_what_a_scan_finds(texts: list[list[int]], tail: list[int]) -> None:
    places = [
        (n, tuple(text), end)
        for text in texts
        for end in range(len(text) - 1, GRAM - 1, -1)
        if (n := common(text[:end], tail)) >= GRAM
    ][:16]
    best = max((n for n, _, _ in places), default=0)
    expected = [(text, end) for n, text, end in places if n == best]
    assert longest_match([RememberedText(tuple(t)) for t in texts], tail) == (best, expected)


def common(text: list[int], tail: list[int]) -> int:
    n = 0
    while n < min(len(text), len(tail), DEPTH) and text[-n - 1] == tail[-n - 1]:
        n += 1
    return n


def test_places_vote() -> None:
    a, b, c = (1, 2, 3, 7, 8), (1, 2, 3, 7, 9), (1, 2, 3, 5)
    assert list(votes([(c, 3), (a, 3), (b, 3)])) == [(7, 2 / 4), (8, 1 / 2)]
    assert list(votes([(c, 3), (a, 3)])) == [(5, 1 / 3)], "a tie goes to the first place"
    assert list(votes([])) == []


def test_whose_texts_take_most_room_loses_first() -> None:
    memory = TextMemory(4 * RememberedText.size(20))
    memory.add(numbered(0), "few")
    for start in range(100, 1000, 100):
        memory.add(numbered(start), "many")
    assert [text.tokens[0] for text in memory.texts("few")] == [0]
    assert [text.tokens[0] for text in memory.texts("many")] == [900, 800, 700]
    memory.add(numbered(2000), "few")
    assert len(memory.texts("few")) == len(memory.texts("many")) == 2
    assert memory.bytes == 4 * RememberedText.size(20)


def test_changes_are_counted() -> None:
    memory = TextMemory(RememberedText.size(20))
    memory.add(numbered(0, 30))
    assert memory.changes == 0, "it did not fit"
    memory.add(numbered(0))
    memory.add(numbered(0))
    assert memory.changes == 2
    assert memory.snapshot() == [("", tuple(numbered(0)))]
