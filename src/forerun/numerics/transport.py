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

import numpy as np

from forerun.numerics.likeliest import head
from forerun.numerics.randomness import Float64Array
from forerun.numerics.restricted import without


def independent(p: Float64Array, q: Float64Array, count: int) -> float:
    """Most that can be accepted of `count` independent draws from q."""
    p, q = _by_ratio(p, q)
    return _least(p, np.cumsum(q) ** count)


def without_replacement(p: Float64Array, q: Float64Array, count: int) -> float:
    """Most that can be accepted of `count` draws from q without replacement; of all that q has mass
    for, where those are fewer. Time grows as q's support to the power of `count`."""
    p, q = _by_ratio(p, q)
    return _least(p, np.cumsum(_last_of_draws(q / q.sum(), min(count, len(q)))))


def greedy_plus_one(p: Float64Array, q: Float64Array, count: int) -> float:
    """Most that can be accepted of q's `count` − 1 likeliest and one drawn from the rest."""
    likeliest = [token for token, _ in head(q, count - 1)]
    rest = without(q, likeliest)
    top = float(p[likeliest].sum())
    return top if rest is None else top + float(np.minimum(p, rest).sum())


def _by_ratio(p: Float64Array, q: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Both where q has mass, in increasing p/q: of other tokens none is worth having in H."""
    some = np.flatnonzero(q > 0)
    order = some[np.argsort(p[some] / q[some], kind="stable")]
    return p[order], q[order]


def _last_of_draws(q: Float64Array, count: int) -> Float64Array:
    """For each token: Pr(of `count` draws without replacement it is the one that stands last)."""
    sets = {0: (1.0, 0.0)}  # the tokens drawn, as bits -> chance, and their mass
    for _ in range(count):
        longer: dict[int, tuple[float, float]] = {}
        for drawn, (chance, mass) in sets.items():
            for token, own in enumerate(q.tolist()):
                if not drawn >> token & 1:
                    more = drawn | 1 << token
                    before = longer.get(more, (0.0, 0.0))[0]
                    longer[more] = before + chance * own / max(1 - mass, own), mass + own
        sets = longer
    found = np.zeros(len(q))
    for drawn, (chance, _) in sets.items():
        found[drawn.bit_length() - 1] += chance
    return found


def _least(p: Float64Array, inside: Float64Array) -> float:
    """1 + min over prefixes H of P(H) − Pr(all inside H), the empty one included."""
    return 1.0 + min(0.0, float((np.cumsum(p) - inside).min(initial=0.0)))
