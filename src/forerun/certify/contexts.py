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

Key = tuple[str, tuple[int, ...], tuple[int, ...]]  # setting, prompt, output before the place


@dataclass(frozen=True, kw_only=True)
class Context:
    """One place, and what was written there."""

    setting: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]  # before the place
    count: int
    tokens: tuple[tuple[int, float, float], ...]  # id, p, frequency; the furthest off first
    z: float  # of the furthest, in standard deviations


@dataclass
class Contexts:
    """Counts of what came where."""

    _laws: dict[Key, Array] = field(default_factory=dict)
    _counts: dict[Key, Counter[int]] = field(default_factory=dict)

    def add(
        self, setting: str, prompt: tuple[int, ...], output: tuple[int, ...], token: int, p: Array
    ) -> None:
        if len(output) >= DEPTH:
            return
        key = (setting, prompt, output)
        if key not in self._laws:
            if len(self._laws) >= MOST:
                return
            self._laws[key], self._counts[key] = p.astype(np.float32), Counter()
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
        p, counts = self._laws[key].astype(np.float64), self._counts[key]
        n = counts.total()
        likely = [int(i) for i in np.argsort(-p, kind="stable")[:SHOWN]]
        rows = []
        for token in dict.fromkeys([*counts, *likely]):
            mass = float(p[token]) if 0 <= token < len(p) else 0.0
            rows.append((_z(counts[token], n, mass), token, mass, counts[token] / n))
        rows.sort(key=lambda row: -abs(row[0]))
        return Context(
            setting=key[0],
            prompt=key[1],
            output=key[2],
            count=n,
            tokens=tuple((token, mass, share) for _, token, mass, share in rows[:SHOWN]),
            z=rows[0][0],
        )


def _z(count: int, n: int, p: float) -> float:
    """Deviation of a count in standard deviations; that of at least one token where p is small."""
    spread = math.sqrt(max(n * p * (1 - p), 1.0))
    return (count - n * p) / spread
