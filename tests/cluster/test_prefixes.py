"""Who has read how a text begins, and where beginnings go that nobody has read."""

from __future__ import annotations

from collections import Counter

from forerun.cluster.prefixes import BLOCKS, IDS, LETTERS, Prefixes, keys, named

LONG = "a" * LETTERS * 5


def test_keys_are_those_of_whole_blocks():
    assert len(keys("", LONG)) == len(keys("", LONG + "b")) == 5
    assert keys("", LONG)[:3] == keys("", LONG[: 3 * LETTERS])
    assert keys("", LONG + "b" * LETTERS)[:5] == keys("", LONG)
    assert len(keys("", "short")) == len(keys("", "")) == 1
    assert len(keys("", LONG * 100)) == BLOCKS
    ids = list(range(3 * IDS))
    assert len(keys("", ids)) == 3
    assert keys("", ids[: IDS * 2]) == keys("", ids)[:2]
    assert keys("", "\ud800 half a pair")


def test_other_texts_tenants_and_roles_have_other_keys():
    talk = [{"role": "user", "content": LONG}]
    firsts = [
        keys(*each)[0]
        for each in (
            ("", LONG), ("me", LONG), ("", "b"), ("", talk), ("", [{**talk[0], "role": "system"}]),
            ("", [97] * IDS), ("", [98] * IDS), ("", [97 * 256] * IDS),
        )
    ]  # fmt: skip
    assert len(set(firsts)) == len(firsts)
    longer = [*talk, {"role": "assistant", "content": "b"}]
    assert keys("", longer)[:4] == keys("", talk)[:4]


def test_the_longest_beginning_that_somebody_has_read():
    table = Prefixes()
    there = ["a", "b", "c"]
    assert table.holders(keys("", LONG), there) == []
    table.note(keys("", LONG[: 2 * LETTERS]), "a")
    table.note(keys("", LONG[: 4 * LETTERS]), "b")
    assert table.holders(keys("", LONG), there) == ["b"]
    assert table.holders(keys("", LONG[:LETTERS]), there) == ["b", "a"]
    assert table.holders(keys("", LONG), ["a", "c"]) == ["a"]  # b is gone
    assert table.holders(keys("", "b"), there) == []
    table.note(keys("", LONG), "c")
    assert table.holders(keys("", LONG), there) == ["c"]


def test_the_oldest_are_forgotten():
    table = Prefixes(most=10)
    for number in range(30):
        table.note(keys("", f"{number}"), "a")
    kept = [number for number in range(30) if table.holders(keys("", f"{number}"), ["a"])]
    assert kept == list(range(20, 30))
    for name in "bcdefg":
        table.note(keys("", "29"), name)
    assert len(table.holders(keys("", "29"), "abcdefg")) == 4


def test_beginnings_are_spread_and_stay_where_they_were():
    first = {i: keys("", f"text {i}")[0] for i in range(2000)}
    eight = [f"replica {i}" for i in range(8)]
    before = {i: named(key, eight)[0] for i, key in first.items()}
    counts = Counter(before.values())
    assert set(counts) == set(eight)
    assert max(counts.values()) < 1.3 * min(counts.values())
    after = {i: named(key, eight[1:])[0] for i, key in first.items()}
    assert all(after[i] == before[i] for i in first if before[i] != eight[0])
    assert all(after[i] == named(first[i], eight)[1] for i in first if before[i] == eight[0])
