"""E-processes against losslessness: wealth of a gambler who bets on the next token at fair odds.

Each factor of a wealth has conditional mean at most 1 given all that came before, so that

    Pr(wealth ever ≥ 1/level) ≤ level                                  (Ville's inequality)

whenever one looks and stops. A wealth is multiplied over tokens. Different bets on the *same*
token depend on each other: their wealths are averaged, with weights fixed beforehand, and never
multiplied. Three kinds, all of which need only sums and counts, in whatever chunks tokens come:

    histogram   the next u by the counts so far, Dirichlet(κ·widths) to begin with, for several κ;
                per class of context its own, so that opposite faults of two contexts do not cancel
    ratio       (1 − ε) + ε·r(x)/p(x), r the law under a named fault, over a grid of ε
    tilt        e^{λ·1[x ∈ A]} / (1 − π + π·e^λ), A = {r > p}, π = p(A), over a grid of λ of both
                signs: it needs no more of the fault than what it favours

Sources: Ville 1939; Shafer 2021; Ramdas et al. 2023 (game-theoretic statistics, 4 to 6).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forerun.certify.observation import Array, Keys

EDGES = np.array([0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1])
"""Of the bins of u: narrow at both ends, where cuts of a law and its favourites show."""

KAPPAS = (20.0, 400.0, 8_000.0, 160_000.0)
"""Tokens' worth of belief in uniformity: few find a large fault soon, many a small one in time."""

STRENGTHS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # ε
TILTS = tuple(0.005 * 2.0**k for k in range(10))  # |λ|, to 2.56

CELLS = 4096  # classes with a histogram of their own; later ones share one
ZETA = 10.5844484649508  # Σ k^−1.1
_HALF_LOG_2_PI = 0.9189385332046727


class Histograms:
    """Wealth of bets on u by a class of each token, in one order of tokens."""

    def __init__(self, partitions: Sequence[str]) -> None:
        self._cells = {name: _Cells() for name in partitions}

    def observe(self, u: Array, classes: Mapping[str, Keys]) -> None:
        """Tokens' u [N], NaN where there is none, and the class of each by partition.

        A partition that is not told has one class.
        """
        known = ~np.isnan(u)
        bins = np.clip(np.searchsorted(EDGES, u, side="right") - 1, 0, len(EDGES) - 2)
        for name, cells in self._cells.items():
            cells.count(bins, known, classes.get(name))

    def log_wealth(self) -> dict[str, float]:
        """By partition: average over κ, and over all classes together and each alone."""
        tables = [cells.table for cells in self._cells.values()]
        own = dirichlet(np.concatenate(tables))  # of all at once: many small calls are slow
        ends = np.cumsum([len(table) for table in tables])
        return {name: _of_classes(part) for name, part in zip(self._cells, np.split(own, ends, 1))}

    def counts(self, partition: str) -> dict[Hashable, NDArray[np.int64]]:
        """Tokens in each bin of u, by class in the order of their first appearance."""
        cells = self._cells[partition]
        return {key: cells.table[i].copy() for key, i in cells.places.items()}


class _Cells:
    def __init__(self) -> None:
        self.places: dict[Hashable, int] = {}
        self.table = np.zeros((0, len(EDGES) - 1), dtype=np.int64)

    def count(self, bins: NDArray[np.int64], known: NDArray[np.bool_], keys: Keys | None) -> None:
        places = self._places(keys, len(bins))
        missing = max(len(self.places) - len(self.table), 0)
        self.table = np.concatenate([self.table, np.zeros((missing, self.table.shape[1]), int)])
        np.add.at(self.table, (places[known], bins[known]), 1)

    def _places(self, keys: Keys | None, n: int) -> NDArray[np.int64]:
        if keys is None:
            return np.full(n, self._place(None), dtype=np.int64)
        if isinstance(keys, np.ndarray):  # whole numbers, many of them: look each up once
            values, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            own = np.empty(len(values), dtype=np.int64)
            for i in np.argsort(first):
                own[i] = self._place(int(values[i]))
            return own[inverse]
        return np.array([self._place(key) for key in keys], dtype=np.int64)

    def _place(self, key: Hashable) -> int:
        if key not in self.places and len(self.places) >= CELLS:
            key = "others"
        return self.places.setdefault(key, len(self.places))


def _of_classes(own: Array) -> float:
    """Log wealth of one partition from its classes' [κ, C], by order of first appearance."""
    count = own.shape[1]
    if not count:
        return 0.0
    together = own.sum(axis=1)
    if count == 1:
        return log_mean(together)
    weights = np.arange(1, count + 1) ** -1.1 / ZETA
    spare = max(1 - float(weights.sum()), 0.0)  # for classes that have not been seen yet
    top = np.maximum(own.max(axis=1), 0.0)
    alone = top + np.log(np.exp(own - top[:, None]) @ weights + spare * np.exp(-top))
    return log_mean([*together, *alone])


def dirichlet(counts: NDArray[np.int64]) -> Array:
    """Log wealth [κ, C] of Dirichlet gamblers on counts [C, bins], in whatever order they came.

    Π_t (c_b + κ·w_b)/((t − 1 + κ)·w_b), with c_b the count of the token's bin before it.
    """
    whole = log_gamma(counts.sum(axis=1) + _KAPPA[:, None]) - _START_ALL[:, None]
    own = (log_gamma(counts + _PRIOR[:, None]) - _START[:, None]).sum(axis=2)
    found: Array = own - (counts * _LOG_WIDTHS).sum(axis=1) - whole
    return found


@dataclass(kw_only=True)
class FaultSums:
    """What the tokens say for and against one named fault: all sums over its positions."""

    tilts: Array  # λ of both signs [L]
    tokens: int = 0
    favoured: int = 0  # tokens in A
    tv: float = 0.0  # Σ TV(p, r)
    ratio: Array  # Σ log((1 − ε) + ε·r/p) [E]
    norm: Array  # Σ log(1 − π + π·e^λ) [L]

    @classmethod
    def of(cls, claim: float) -> FaultSums:
        """`claim`: the mean TV that shall be excluded, for which λ = 4·claim is the best tilt."""
        sizes = sorted({*TILTS, 4 * claim})
        tilts = np.array([*(-size for size in sizes), *sizes])
        return cls(tilts=tilts, ratio=np.zeros(len(STRENGTHS)), norm=np.zeros(len(tilts)))

    def observe(self, p: Array, r: Array, token: NDArray[np.int64]) -> None:
        """Laws [N, V] of the target and under the fault, and what was emitted, of p > 0."""
        rows = np.arange(len(token))
        favours = r > p
        share = np.where(favours, p, 0.0).sum(axis=1)
        self.tokens += len(token)
        self.favoured += int(favours[rows, token].sum())
        self.tv += float(np.where(favours, r - p, 0.0).sum())
        self.norm += np.log1p(share[:, None] * np.expm1(self.tilts)).sum(axis=0)
        relative = r[rows, token] / p[rows, token]
        strengths = np.array(STRENGTHS)
        with np.errstate(divide="ignore"):  # a token that the fault never writes
            self.ratio += np.log((1 - strengths) + strengths * relative[:, None]).sum(axis=0)

    def log_wealth(self) -> float:
        """Against losslessness: average of the ratio's and the tilt's."""
        tilt = self.tilts * self.favoured - self.norm
        return log_mean([log_mean(self.ratio), log_mean(tilt)])


def log_mix(logs: Sequence[float] | Array, weights: Sequence[float] | Array) -> float:
    """log Σ w·e^l."""
    values, shares = np.asarray(logs), np.asarray(weights)
    top = float(values.max())
    if top == -np.inf:
        return -np.inf
    return top + float(np.log(shares @ np.exp(values - top)))


def log_mean(logs: Sequence[float] | Array) -> float:
    """log of the plain mean of e^l."""
    return log_mix(logs, np.full(len(logs), 1 / len(logs)))


def log_gamma(x: Array) -> Array:
    """log Γ of positive numbers: Stirling's series at x + 8, and the recurrence down to x."""
    product = np.ones_like(x)
    for i in range(8):
        product = product * (x + i)
    y = x + 8
    inverse = 1 / y
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    found: Array = (y - 0.5) * np.log(y) - y + _HALF_LOG_2_PI + series - np.log(product)
    return found


_WIDTHS = np.diff(EDGES)
_LOG_WIDTHS = np.log(_WIDTHS)
_KAPPA = np.array(KAPPAS)
_PRIOR = _KAPPA[:, None] * _WIDTHS  # [κ, bins]
_START, _START_ALL = log_gamma(_PRIOR), log_gamma(_KAPPA)
