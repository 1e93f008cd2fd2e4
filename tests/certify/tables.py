"""The suite's tables and drafters, by one name each, for the larger suites of the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from forerun.certify import suite
from forerun.certify.suite import COMPANY, COSTS, PROMPT, draft_model, table, target
from forerun.drafters.base import Drafter

__all__ = ["COMPANY", "COSTS", "PROMPT", "controls", "draft_model", "drafters", "table", "target"]


def drafters(vocabulary: int) -> dict[str, Callable[[], Drafter | None]]:
    """Every drafter in every variant."""
    return {
        f"{name}, {variant}" if variant else name: lambda make=make: make(vocabulary)
        for name, variants in suite.VARIANTS.items()
        for variant, make in variants.items()
    }


def controls(vocabulary: int) -> dict[str, Mapping[str, Any]]:
    """Each axis of a request's law alone, without the end token, which is an axis of its own."""
    found = suite.controls(vocabulary)
    return {n: c for n, c in found.items() if "eos" not in c} | {"min-tokens": {"min_tokens": 2}}
