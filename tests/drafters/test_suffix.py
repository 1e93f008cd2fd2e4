"""Suffix decoding."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import pytest

from forerun.drafters import SuffixDrafter
from forerun.errors import OptionError

from .contract import ask

OLD = [10, 11, 12, 13, 14, 15, 16, 17]


def guess(drafter: SuffixDrafter, slot: int, prompt: list[int], count: int = 8) -> list[int]:
    return list(drafter.propose([ask(slot, prompt, [], count, eos=frozenset())])[0].tree.tokens)


def alone(prompt: list[int], count: int = 8, **options: Any) -> list[int]:
    drafter = SuffixDrafter(**options)
    drafter.begin(0, prompt)
    return guess(drafter, 0, prompt, count)


def remembering(*texts: list[int], **options: Any) -> SuffixDrafter:
    drafter = SuffixDrafter(memory_bytes=1 << 20, **options)
    for text in texts:
        drafter.begin(0, text[:1])
        drafter.observe(0, text[1:])
        drafter.end(0)
    return drafter


def test_worked_examples() -> None:
    assert alone([1, 2, 4, 1, 2, 5, 1, 2, 4, 1, 2], 1) == [5], "4, 1, 2 was followed by 5"
    assert alone([1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2], 2) == [4, 1]
    assert alone([7, 4, 8, 4, 9, 4, 8, 5, 4], 1) == [8], "after 4 came 8 twice, 9 once"
    assert alone([7, 4, 8, 4, 9, 4], 1) == [9], "a tie goes to the more recent"
    assert alone([1] * 6, 8) == [1] * 8


def test_it_drafts_no_further_than_the_match_and_the_probability_allow() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 1]
    assert alone(text, draft_factor=1) == [2]
    assert alone(text, draft_factor=2) == [2, 3]
    assert alone(text, draft_factor=0.5) == []
    assert alone(text, draft_factor=100) == [2, 3, 4, 5, 6, 7, 1, 2]
    assert alone(text, draft_factor=1e308) == [2, 3, 4, 5, 6, 7, 1, 2]
    assert alone(text, draft_factor=100, min_probability=0.51) == [], "seen once is worth a half"


def test_nothing_known() -> None:
    assert alone([1]) == []
    assert alone([1, 2, 3]) == []


def test_an_earlier_text_is_recalled() -> None:
    drafter = remembering(OLD)
    drafter.begin(0, [1, 10, 11, 12])
    assert guess(drafter, 0, [1, 10, 11, 12]) == [13, 14, 15, 16, 17]
    drafter.begin(1, [11, 12])
    assert guess(drafter, 1, [11, 12]) == [], "two tokens are too few to find a place"


def test_the_better_estimate_is_drafted() -> None:
    drafter = remembering(OLD)
    prompt = [10, 11, 12, 9, 10, 11, 12, 9, 10, 11, 12]
    drafter.begin(0, prompt)
    assert guess(drafter, 0, prompt, 4) == [9, 10, 11, 12], "twice here against once there"


def test_without_recall_the_memory_is_not_consulted() -> None:
    drafter = remembering(OLD)
    prompt = [20, 21, 10, 11, 12]
    drafter.begin(0, prompt, recall=False)
    assert guess(drafter, 0, prompt) == []
    drafter.observe(0, [30, 31, 32])
    drafter.end(0)
    drafter.begin(1, [10, 11, 12])
    assert guess(drafter, 1, [10, 11, 12], 1) == [30], "but its text is there for others"


def test_a_text_is_recalled_for_its_tenant_alone() -> None:
    drafter = SuffixDrafter(memory_bytes=1 << 20)
    drafter.begin(0, OLD, tenant="a")
    drafter.end(0)
    prompt = [1, 10, 11, 12]
    for tenant, guessed in [("a", OLD[3:]), ("b", []), ("", [])]:
        drafter.begin(0, prompt, tenant=tenant)
        assert guess(drafter, 0, prompt) == guessed
        drafter.end(0)
    drafter.begin(0, prompt, tenant="a", recall=False)
    assert guess(drafter, 0, prompt) == []


def test_others_progress_changes_nothing() -> None:
    """A request sees the memory as it was when it began."""
    drafter = SuffixDrafter(memory_bytes=1 << 20)
    drafter.begin(0, [10, 11, 12])
    drafter.begin(1, OLD[:2])
    drafter.observe(1, OLD[2:])
    assert guess(drafter, 0, [10, 11, 12]) == []
    drafter.end(1)
    assert guess(drafter, 0, [10, 11, 12]) == []
    drafter.begin(1, [10, 11, 12])
    assert guess(drafter, 1, [10, 11, 12], 2) == [13, 14]


def test_a_text_that_went_out_is_still_seen_by_those_who_saw_it() -> None:
    drafter = SuffixDrafter(memory_bytes=1024 + 210 * 8)
    drafter.begin(0, OLD)
    drafter.end(0)
    drafter.begin(0, [10, 11, 12])
    drafter.begin(1, [20, 21, 22, 23, 24, 25, 26, 27])
    drafter.end(1)
    drafter.begin(1, [10, 11, 12])
    assert guess(drafter, 0, [10, 11, 12], 2) == [13, 14]
    assert guess(drafter, 1, [10, 11, 12], 2) == []


@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_who_asked_before_changes_nothing(memory: int) -> None:
    dice = random.Random(5)
    for _ in range(30):
        earlier = dice.choices(range(3), k=20)
        drafters = [SuffixDrafter(memory_bytes=memory, min_probability=0.0) for _ in range(2)]
        text = dice.choices(range(3), k=12)
        for drafter in drafters:
            drafter.begin(0, earlier)
            drafter.end(0)
            drafter.begin(0, text)
        asked, fresh = drafters
        for _ in range(6):
            for _ in range(3):
                asked.outlook(0, len(text), dice.randrange(1, 9))
            for count in (3, 1, 8):
                assert guess(asked, 0, text, count) == guess(copy.deepcopy(fresh), 0, text, count)
            more = dice.choices(range(3), k=2)
            text = text + more
            for drafter in drafters:
                drafter.observe(0, more)
        assert pickle.dumps(asked) == pickle.dumps(fresh)


def test_no_memory_unless_asked_for() -> None:
    drafter = SuffixDrafter()
    drafter.begin(0, OLD)
    drafter.end(0)
    assert drafter.memory.texts() == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_bytes": -1}, "memory_bytes must be a whole number of at least 0, not -1"),
        ({"memory_bytes": 1.5}, "memory_bytes must be a whole number"),
        ({"max_match": 0}, "max_match must be a whole number of at least 1, not 0"),
        ({"max_match": "x"}, "max_match must be a whole number of at least 1, not 'x'"),
        ({"draft_factor": 0}, "draft_factor must be finite and above 0, not 0"),
        ({"draft_factor": float("nan")}, "draft_factor must be finite and above 0, not nan"),
        ({"draft_factor": float("inf")}, "draft_factor must be finite and above 0, not inf"),
        ({"draft_factor": 10**400}, "draft_factor must be finite and above 0, not 1000"),
        ({"draft_factor": "x"}, "draft_factor must be finite and above 0, not 'x'"),
        ({"draft_factor": True}, "draft_factor must be finite and above 0, not True"),
        ({"min_probability": 1.5}, "min_probability must be between 0 and 1, not 1.5"),
        ({"min_probability": "x"}, "min_probability must be between 0 and 1, not 'x'"),
        ({"min_probability": None}, "min_probability must be between 0 and 1, not None"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SuffixDrafter(**options)
