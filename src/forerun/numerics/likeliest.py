"""The likeliest few of V tokens, for people to read: of a law, or of log-probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from forerun.numerics.randomness import host
from forerun.numerics.sparse_law import SparseLaw

Head = tuple[tuple[int, float], ...]
"""Ids with their values, falling; ties with the lower id first."""


def head(law: Any, count: int) -> Head:
    """The `count` likeliest tokens of a law [V]; fewer where fewer have any mass."""
    if isinstance(law, SparseLaw):
        return tuple((int(law.ids[i]), mass) for i, mass in likeliest(law.p, count, 0.0))
    return likeliest(host(law), count, 0.0)


def likeliest(values: Any, count: int, above: float) -> Head:
    """Of values [V] the `count` largest, those alone that are greater than `above`."""
    count = min(count, len(values))
    if count == 0:
        return ()
    least = np.partition(values, len(values) - count)[len(values) - count]
    ids = np.flatnonzero((values >= least) & (values > above))
    order = np.argsort(-values[ids], kind="stable")[:count]
    return tuple((int(i), float(values[i])) for i in ids[order])
