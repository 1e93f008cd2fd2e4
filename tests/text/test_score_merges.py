"""Merging by scores, against a definition of it written out."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.text import score_merges
from forerun.text.score_merges import ScoreMerges

ALPHABET = "ab▁é😀"


def encoder(scores: Mapping[str, float], **changes: Any) -> ScoreMerges:
    """Ids from 256 on in the order of `scores`; bytes are 0 to 255."""
    given: dict[str, Any] = {
        "ids": {token: 256 + i for i, token in enumerate(scores)},
        "scores": [0.0] * 256 + list(scores.values()),
        "byte_ids": range(256),
        "whole": {},
        "whole_if_special": {},
        "space_first": False,
    }
    return ScoreMerges(**given | changes)


def pieces(scores: Mapping[str, float], text: str, **changes: Any) -> list[str | int]:
    """Names of tokens, and the numbers of bytes."""
    names = list(scores)
    ids = encoder(scores, **changes).encode(text, special=False)
    return [names[i - 256] if 256 <= i < 256 + len(names) else i for i in ids]


def by_definition(scores: Mapping[str, float], text: str) -> list[str | int]:
    parts = list(text.replace(" ", "▁"))
    while True:
        pairs = [(i, a + b) for i, (a, b) in enumerate(itertools.pairwise(parts))]
        pairs = [(i, both) for i, both in pairs if both in scores]
        if not pairs:
            break
        i, both = max(pairs, key=lambda pair: scores[pair[1]])  # the first of the highest
        parts[i : i + 2] = [both]
    found: list[str | int] = []
    for part in parts:
        found += [part] if part in scores else part.encode()
    return found


@st.composite
def vocabularies(draw: st.DrawFn) -> dict[str, float]:
    """Few different scores, so many ties; characters need not be tokens."""
    letters = draw(st.sampled_from([ALPHABET, "ab", "ab▁", "a"]))
    words = st.text(st.sampled_from(letters), min_size=1, max_size=5)
    values = draw(
        st.sampled_from(
            [st.sampled_from([0.0, -0.0, -1.0, 0.5]), st.floats(-5, 5), st.just(-float("inf"))]
        )
    )
    return draw(st.dictionaries(words, values, max_size=25))


@settings(deadline=None)
@given(scores=vocabularies(), text=st.text(st.sampled_from(ALPHABET + " "), max_size=30))
def test_any_vocabulary_merges_as_defined(scores: dict[str, float], text: str) -> None:
    assert pieces(scores, text) == by_definition(scores, text)


@settings(deadline=None)
@given(
    scores=vocabularies(),
    texts=st.lists(st.text(st.sampled_from(ALPHABET + " "), max_size=20), max_size=5),
)
def test_what_was_encoded_before_changes_nothing(
    scores: dict[str, float], texts: list[str]
) -> None:
    used = encoder(scores)
    for text in texts:
        assert used.encode(text, special=False) == encoder(scores).encode(text, special=False)


def test_the_example() -> None:
    scores = {"ab": -1.0, "bc": -2.0, "abc": -3.0, "▁a": -4.0, "▁": -9.0, "c": -9.0}
    assert pieces(scores, " abc") == ["▁", "abc"]
    assert pieces(scores, " ac") == ["▁a", "c"]


@pytest.mark.parametrize(
    ("text", "expected"), [("abc", ["ab", "c"]), ("bcab", ["bc", "ab"]), ("aba", ["ab", "a"])]
)
def test_of_equal_scores_the_leftmost(text: str, expected: list[str]) -> None:
    scores = dict.fromkeys(["ab", "ba", "bc", "a", "b", "c"], -1.0)
    assert pieces(scores, text) == expected


def test_of_several_ways_to_one_token_the_leftmost() -> None:
    """ "ababa" is ab aba and aba ba; here all three lie side by side."""
    scores = {"ab": 3.0, "ba": 2.0, "aba": 1.0, "ababa": 0.0, "a": -1.0, "b": -1.0, "xab": 9.0}
    for text in map("".join, itertools.product("abx", repeat=7)):
        assert pieces(scores, text) == by_definition(scores, text)


def test_characters_without_a_token_merge_all_the_same() -> None:
    assert pieces({"é😀": 0.0, "▁": 0.0}, " é😀é") == ["▁", "é😀", *"é".encode()]


def test_tokens_that_join_words() -> None:
    scores = {">▁": -1.0, ">▁<": -2.0, ">": -9.0, "<": -9.0, "▁": -9.0, "x": -9.0, "▁x": -3.0}
    assert pieces(scores, "> <") == [">▁<"]
    assert pieces(scores, "x x> x") == ["x", "▁x", ">▁", "x"]


def test_signs_that_mean_something_in_patterns() -> None:
    for sign in "^]-\\[&~|.\n":
        scores = {f"{sign}▁": 0.0, "▁": 0.0, "a": 0.0, sign: -1.0}
        assert pieces(scores, f"{sign} a {sign}") == [f"{sign}▁", "a", "▁", sign]


def test_long_words() -> None:
    scores = {"ab" * 2**i: -float(i) for i in range(9)}
    assert pieces(scores, "ab" * 300) == by_definition(scores, "ab" * 300)


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_merges, "_REMEMBERED", 3)
    monkeypatch.setattr(score_merges, "_LONGEST", 4)
    made = encoder({"▁": 0.0, "a": 0.0, "b": 0.0})
    for text in ("a b ab ba aa bb", "abababab", " abababab"):
        assert len(made.encode(text, special=False)) == len(text)
    assert 0 < len(made._known) <= 3
    assert max(map(len, made._known)) <= 4


def test_a_pickle_holds_no_memory() -> None:
    made = encoder({"ab": 0.0}, whole={"<x>": 300})
    made.encode("ab<x>", special=False)
    other = pickle.loads(pickle.dumps(made))
    assert other._known == {}
    assert other.encode("ab<x>", special=False) == [256, 300]


WHOLE = {"<x>": 1000, "<xy>": 1001, "x><": 1002, "\n": 1003, "\n\n\n": 1004, "é": 1005, "__z": 1006}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<x>", [1000]),
        ("<x><xy>", [1000, 1001]),
        ("<x><", [1000, ord("<")]),  # the leftmost of two that overlap
        ("<xy<x>", [*b"<xy", 1000]),
        ("x><x>", [1002, *b"x>"]),
        ("\n" * 8, [1004, 1004, 1003, 1003]),
        ("\n\na", [1003, 1003, ord("a")]),
        ("aéb", [ord("a"), 1005, ord("b")]),
        ("<x", [*b"<x"]),
        ("___z", [ord("_"), 1006]),  # found where a false start was
        ("", []),
    ],
)
def test_whole_tokens_from_left_to_right_the_longest_first(text: str, expected: list[int]) -> None:
    assert encoder({}, whole=WHOLE).encode(text, special=False) == expected


@settings(deadline=None)
@given(text=st.text(st.sampled_from("<xy>\né_z"), max_size=20))
def test_whole_tokens_at_every_place(text: str) -> None:
    expected, at = [], 0
    while at < len(text):
        found = [name for name in WHOLE if text.startswith(name, at)]
        if found:
            name = max(found, key=len)
            expected.append(WHOLE[name])
            at += len(name)
        else:
            expected += text[at].encode()
            at += 1
    assert encoder({}, whole=WHOLE).encode(text, special=False) == expected


def test_nothing_merges_across_a_whole_token() -> None:
    scores = {"ab": 0.0, "a": 0.0, "b": 0.0}
    made = encoder(scores, whole={"|": 7})
    assert made.encode("ab|a|b", special=False) == [256, 7, 257, 7, 258]


def test_special_tokens_are_letters_unless_asked_for() -> None:
    made = encoder({}, whole={"<x>": 1000}, whole_if_special={"<x>y": 1001})
    assert made.encode("<x>y", special=False) == [1000, ord("y")]
    assert made.encode("<x>y", special=True) == [1001]


def test_a_space_before_each_stretch() -> None:
    made = encoder({"▁": 0.0}, whole={"|": 7}, space_first=True)
    assert made.encode("a|b||", special=False) == [256, ord("a"), 7, 256, ord("b"), 7, 7]
    assert made.encode("", special=False) == []
