"""Places that came often: the law there beside what was written. For people, not for the verdict.

Only the first tokens of an output are kept, for there the same prefix comes again and again. What
stands out among many places does so by chance too: the number beside it is no p-value.

What this module does not know: tests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from forerun.certify.observation import Array

DEPTH = 3
"""Tokens of an output that are kept."""

MOST = 20_000
"""Contexts that are kept, the first to come."""

SHOWN = 6
"""Tokens of a context that are shown."""

Key = tuple[str, str, tuple[int, ...], tuple[int, ...]]
"""Setting, sampling (which may differ within one), prompt, output before the place."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """One place, and what was written there."""

    setting: str
    sampling: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]  # before the place
    count: int
    tokens: tuple[tuple[int, float, float], ...]  # id, p, frequency; the furthest off first
    z: float  # of the furthest, in standard deviations


@dataclass
class Contexts:
    """Counts of what came where, and p of the likeliest tokens there and of those that came."""

    _laws: dict[Key, dict[int, float]] = field(default_factory=dict)
    _counts: dict[Key, Counter[int]] = field(default_factory=dict)

    def add(
        self,
        where: tuple[str, str],
        prompt: tuple[int, ...],
        output: tuple[int, ...],
        token: int,
        p: Array,
    ) -> None:
        """One token of a place; `where` is the setting and the sampling."""
        if len(output) >= DEPTH:
            return
        key = (*where, prompt, output)
        if key not in self._laws:
            if len(self._laws) >= MOST:
                return
            most = min(SHOWN, len(p))
            likely = np.argpartition(p, len(p) - most)[len(p) - most :]
            self._laws[key] = {int(i): float(p[i]) for i in likely}
            self._counts[key] = Counter()
        self._laws[key][token] = float(p[token])
        self._counts[key][token] += 1

    def worst(self, most: int = 8, settings: Iterable[str] | None = None) -> list[Context]:
        """Those furthest off, by the largest deviation of one token in standard deviations."""
        wanted = None if settings is None else set(settings)
        found = [
            self._context(key)
            for key, counts in self._counts.items()
            if (wanted is None or key[0] in wanted) and counts.total() >= 10
        ]
        return sorted(found, key=lambda each: -abs(each.z))[:most]

    def _context(self, key: Key) -> Context:
        law, counts = self._laws[key], self._counts[key]
        n = counts.total()
        rows = [(_z(counts[token], n, p), token, p, counts[token] / n) for token, p in law.items()]
        rows.sort(key=lambda row: (-abs(row[0]), row[1]))
        return Context(
            setting=key[0],
            sampling=key[1],
            prompt=key[2],
            output=key[3],
            count=n,
            tokens=tuple((token, p, share) for _, token, p, share in rows[:SHOWN]),
            z=rows[0][0],
        )


def _z(count: int, n: int, p: float) -> float:
    """Deviation of a count in standard deviations; that of at least one token where p is small."""
    spread = math.sqrt(max(n * p * (1 - p), 1.0))
    return (count - n * p) / spread
