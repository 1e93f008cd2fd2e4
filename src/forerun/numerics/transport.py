"""The most that any verifier can accept of a node's children: optimal transport, for each draw.

    n children drawn independently from q     1 + min_H [P(H) − Q(H)^n]
    drawn without replacement                 1 + min_H [P(H) − Pr(all n draws lie in H)]
    greedy plus one                           P(likeliest) + Σ_rest min(p, q̃)
    one child, a chain                        1 − TV(p, q), which both of the first give for n = 1

A verifier maps the children to a token whose law is p, and accepts when it is one of them. Of all
such couplings the best fails with probability max_H [Pr(all children in H) − P(H)] (a cut: tokens
outside H can come only from draws that are not all inside). H runs over the sets of the k smallest
p/q, the empty one included. (Sun et al. 2023, SpecTr, arXiv 2310.15141; Hu et al. 2025, arXiv
2502.18779.)

Laws are NumPy vectors [V] in float64. What this module does not know: verifiers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from forerun.numerics.likeliest import head
from forerun.numerics.randomness import Float64Array
from forerun.numerics.restricted import without

Mask = NDArray[np.bool_]
Inside = Callable[[Mask], float]
"""Pr(all draws lie in H), of a mask [V]."""


def independent(p: Float64Array, q: Float64Array, count: int) -> float:
    """Most that can be accepted of `count` independent draws from q."""
    return _least(p, q, lambda inside: float(q[inside].sum()) ** count)


def without_replacement(p: Float64Array, q: Float64Array, count: int) -> float:
    """Most that can be accepted of `count` draws from q without replacement; of all that q has mass
    for, where those are fewer. Time grows as V to the power of `count` − 1."""
    count = min(count, int(np.count_nonzero(q)))
    return _least(p, q, lambda inside: all_inside(q, inside, count))


def greedy_plus_one(p: Float64Array, q: Float64Array, count: int) -> float:
    """Most that can be accepted of q's `count` − 1 likeliest and one drawn from the rest."""
    likeliest = [token for token, _ in head(q, count - 1)]
    rest = without(q, likeliest)
    top = float(p[likeliest].sum())
    return top if rest is None else top + float(np.minimum(p, rest).sum())


def all_inside(q: Float64Array, inside: Mask, count: int) -> float:
    """Pr(the first `count` draws without replacement all lie in `inside`, a mask [V])."""
    if count == 0:
        return 1.0
    total = float(q.sum())
    if count == 1:
        return float(q[inside].sum()) / total
    found = 0.0
    for token in np.flatnonzero(inside & (q > 0)):
        left = q.copy()
        left[token] = 0.0
        if left.any():
            found += float(q[token]) / total * all_inside(left, inside, count - 1)
    return found


def _least(p: Float64Array, q: Float64Array, inside: Inside) -> float:
    """1 + min over H of P(H) − Pr(all inside H)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, p / q, np.inf)
    order = np.argsort(ratio, kind="stable")
    least, mask = 0.0, np.zeros(len(p), bool)
    for token in order:
        mask[token] = True
        least = min(least, float(p[mask].sum()) - inside(mask))
    return 1.0 + least
