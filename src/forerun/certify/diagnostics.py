"""Chi-square and Anderson-Darling of u, at numbers of tokens that were fixed beforehand.

A p-value is valid at one number of tokens that nothing in them chose; computed again and again it
accuses everybody in the end. So these look at the first 1,000, 10,000 and 100,000 tokens, where a
run gets there, and decide nothing: they are for people who know such tests better than e-values.

    chi_square   Σ (O − E)²/E over 25 equal bins of u, 24 degrees of freedom
    anderson     A² = −n − 1/n·Σ (2i − 1)·(log u_(i) + log(1 − u_(n+1−i))), which looks at the ends

Under a lossless engine all u are independent and uniform, and each p-value is about uniform too
(its approximations are within 1e-3 here). Sources: Anderson, Darling 1952; for the law of A²
Marsaglia, Marsaglia 2004 ("Evaluating the Anderson-Darling distribution", adinf).

What this module does not know: where u comes from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forerun.certify.observation import Array

AT = (1_000, 10_000, 100_000)
"""Tokens at which is looked, and no others."""

BINS = 25  # an even number of degrees of freedom has a tail in closed form


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """Of the first `tokens` tokens."""

    tokens: int
    chi_square: float
    chi_square_p: float
    anderson_darling: float
    anderson_darling_p: float


class Diagnostics:
    """Takes u one by one, in the order of their tokens; keeps them up to the last look."""

    def __init__(self) -> None:
        self._u: list[float] = []
        self.found: list[Diagnostic] = []

    def observe(self, u: float) -> None:
        if len(self._u) >= AT[-1]:
            return
        self._u.append(u)
        if len(self._u) in AT:
            self.found.append(diagnostic(np.array(self._u)))


def diagnostic(u: Array) -> Diagnostic:
    """Of u [n], each in [0, 1]."""
    n = len(u)
    counts = np.bincount(np.minimum((u * BINS).astype(int), BINS - 1), minlength=BINS)
    chi = float(((counts - n / BINS) ** 2).sum() / (n / BINS))
    a = anderson_darling(u)
    return Diagnostic(
        tokens=n,
        chi_square=chi,
        chi_square_p=chi_square_tail(chi, BINS - 1),
        anderson_darling=a,
        anderson_darling_p=anderson_darling_tail(a),
    )


def chi_square_tail(x: float, degrees: int) -> float:
    """Pr(χ² ≥ x) for an even number of degrees: e^{−x/2}·Σ_{i < degrees/2} (x/2)^i/i!."""
    assert degrees % 2 == 0
    half, total, term = x / 2, 0.0, 1.0
    for i in range(degrees // 2):
        total += term
        term *= half / (i + 1)
    return min(math.exp(-half) * total, 1.0)


def anderson_darling(u: Array) -> float:
    """A² of u [n] against the uniform law."""
    n = len(u)
    x = np.clip(np.sort(u), 1e-300, 1 - 2.0**-53)  # an end by itself must not make it infinite
    weights = 2 * np.arange(1, n + 1) - 1
    return float(-n - (weights * (np.log(x) + np.log1p(-x[::-1]))).sum() / n)


def anderson_darling_tail(z: float) -> float:
    """Pr(A² ≥ z) for many tokens."""
    if z <= 0:
        return 1.0
    if z < 2:
        inner = 0.247105 - (0.0649821 - (0.0347962 - (0.011672 - 0.00168691 * z) * z) * z) * z
        return 1 - math.exp(-1.2337141 / z) / math.sqrt(z) * (2.00012 + inner * z)
    z = min(z, 100.0)
    inner = 0.43424 - (0.082433 - (0.008056 - 0.0003146 * z) * z) * z
    return -math.expm1(-math.exp(1.0776 - (2.30695 - inner * z) * z))
