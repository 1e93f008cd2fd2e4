"""A time-uniform band: how far the emitted law may be from the target's, in Kolmogorov's distance.

Ḡ_n(u) is the mean over the first n tokens of the chance, given all before, that the engine's u_t is
at most u; for a lossless engine Ḡ_n(u) = u. With probability at least 1 − level, for all n at once:

    sup|Ḡ_n(u) − u| ≤ max_j |Ĝ_n(u_j) − u_j| + b_n + 1/M,    u_j = j/M

b_n from the two-sided normal mixture for sub-Gaussian sums (Howard et al. 2021, "Time-uniform,
nonparametric, nonasymptotic confidence sequences", eq. 14), at level/(M − 1) for each u_j:

    n·b_n = √((n/4 + ρ)·log((n/4 + ρ)/(ρ·(level/M)²)))

between the u_j both are monotone, hence 1/M. No independence between tokens is used: increments
1[u_t ≤ u] − G_t(u) are martingale differences in an interval of length 1.

What this module does not know: which order u goes by. The band of one order bounds the mean over
tokens alone: faults that cancel between contexts are not in it.
"""

from __future__ import annotations

import math

import numpy as np

from forerun.certify.observation import Array

CELLS = 1000  # M
TUNED_FOR = 20_000.0  # tokens at which the band is about the narrowest it can be


class Band:
    """Counts of u; `bound` at any time."""

    def __init__(self) -> None:
        self._counts = np.zeros(CELLS, dtype=np.int64)

    def observe(self, u: Array) -> None:
        """u [N]; NaN where there is none."""
        known = u[~np.isnan(u)]
        bins = np.minimum((known * CELLS).astype(np.int64), CELLS - 1)
        self._counts += np.bincount(bins, minlength=CELLS)

    @property
    def tokens(self) -> int:
        return int(self._counts.sum())

    def distance(self) -> float:
        """max_j |Ĝ(u_j) − u_j|, of the tokens so far."""
        if not self.tokens:
            return 0.0
        empirical = np.cumsum(self._counts)[:-1] / self.tokens
        return float(np.abs(empirical - np.arange(1, CELLS) / CELLS).max())

    def bound(self, level: float) -> float:
        """Upper bound of sup|Ḡ(u) − u|, at all times at once but for a chance of `level`."""
        if not self.tokens:
            return 1.0
        return min(self.distance() + width(self.tokens, level / CELLS) + 1 / CELLS, 1.0)


def width(n: int, level: float) -> float:
    """b_n of one u, both sides."""
    sides = -2 * math.log(level)
    rho = TUNED_FOR / 4 / (sides + 1)
    v = n / 4 + rho
    return math.sqrt(v * (math.log(v / rho) + sides)) / n
