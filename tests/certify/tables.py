"""The suite's tables and drafters, by one name each, for the larger suites of the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forerun.certify import suite
from forerun.certify.suite import (
    CHAIN_VERIFIERS,
    COMPANY,
    COSTS,
    PROMPT,
    draft_model,
    table,
    target,
)
from forerun.drafters.base import Drafter
from forerun.models.base import Step
from forerun.models.prefix_cache import PrefixCache
from forerun.models.tabular import TabularModel

__all__ = [
    "CHAIN_VERIFIERS", "COMPANY", "COSTS", "LONG", "PROMPT", "Remembering", "controls",
    "draft_model", "drafters", "table", "target",
]  # fmt: skip


def drafters(vocabulary: int) -> dict[str, Callable[[], Drafter | None]]:
    """Every drafter of chains in every variant; trees have a suite of their own."""
    return {
        f"{name}, {variant}" if variant else name: lambda make=make: make(vocabulary)
        for name, variants in suite.VARIANTS.items()
        for variant, make in variants.items()
        if not name.endswith("tree")
    }


def controls(vocabulary: int) -> dict[str, Mapping[str, Any]]:
    """Each axis of a request's law alone, without the end token, which is an axis of its own."""
    found = suite.controls(vocabulary)
    return {n: c for n, c in found.items() if "eos" not in c} | {"min-tokens": {"min_tokens": 2}}


LONG = PROMPT * 14  # more than a page of the prefix cache


class Remembering(TabularModel):
    """Has read `texts`; its slots begin with what a prefix cache knows of LONG, their prompt."""

    def __init__(
        self, next_law: Any, vocabulary: int, eos: int | None, texts: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__(next_law, vocabulary, eos)
        self.cache: PrefixCache | None = None
        cache = PrefixCache(self, 1 << 16)
        for text in texts:
            slot = self.open()
            self.extend([Step(slot=slot, tokens=text, rows=0)])
            cache.store("", text, slot)
            self.close(slot)
        self.cache = cache

    def open(self) -> int:
        slot = super().open()
        if self.cache is not None:
            self.cache.fetch("", LONG, slot)
        return slot
