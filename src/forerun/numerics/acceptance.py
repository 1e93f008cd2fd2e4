"""Acceptance, residual and total variation of a target law p and a draft law q, both [V].

    accept a token x drawn from q with probability      min(1, p(x) / q(x))
    after a rejection, draw the correction from         [p − q]+ / β
    probability of a rejection                          β = Σ [p − q]+ = TV(p, q)

A draft law of None is a point mass on the drafted token: accept with p(x), and the residual is p
without x. (Leviathan et al. 2023, section 2.3 and appendix A.1; Chen et al. 2023, theorem 1.)

What this module does not know: randomness. It says with what probability, never whether.
"""

from __future__ import annotations

from typing import Any

import array_api_compat.numpy  # noqa: F401  its 0.1 s would be paid by the first rejection
import numpy as np
from array_api_compat import array_namespace, device

from forerun.numerics.randomness import host
from forerun.numerics.sparse_law import SparseLaw


def mass(law: Any, token: int) -> float:
    """Probability of `token` under `law` [V]; 0 for ids beyond the vocabulary's end."""
    return float(law[token]) if 0 <= token < law.shape[0] else 0.0


def draft_mass(q: Any, token: int) -> float:
    """Probability with which `token` was drafted; 1 for a point mass (q is None)."""
    return 1.0 if q is None else mass(q, token)


def acceptance(p: Any, q: Any, token: int, scale: float = 1.0) -> float:
    """min(1, scale·p/q) for a token drawn from q; 0 where p is 0, whatever q is."""
    target, draft = scale * mass(p, token), draft_mass(q, token)
    return target / draft if target < draft else float(target > 0)


def residual(p: Any, q: Any, token: int, scale: float = 1.0) -> Any:
    """[scale·p − q]+ normalised: the law of the correction after `token` was rejected.

    `scale` is 1 for token-level verification; block verification passes its P_τ. Where rounding
    leaves nothing (p and q equal but for their last bits, so that the rejection itself was a
    rounding error), the law is p.
    """
    if isinstance(p, SparseLaw):
        r = _excess_on_support(p, q, token, scale)
        total, left = r.sum(), r > 0
        return SparseLaw(p.ids[left], r[left] / total, p.size) if total > 0 else p
    xp = array_namespace(p)
    if q is None:
        r = xp.asarray(scale * p, copy=True)
        if 0 <= token < r.shape[0]:
            r[token] = max(scale * mass(p, token) - 1.0, 0.0)
    else:
        r = _excess(p, q, scale, xp)
    total = xp.sum(r)
    return r / total if bool(total > 0) else p


def excess(p: Any, q: Any, token: int, scale: float) -> float:
    """Z = Σ [scale·p − q]+ in float64: the mass that the draft left out, of a path kept so far."""
    if isinstance(p, SparseLaw):
        return float(_excess_on_support(p, q, token, scale).sum(dtype=np.float64))
    xp = array_namespace(p)
    if q is None:
        return scale * max(float(xp.sum(p, dtype=xp.float64)) - mass(p, token), 0.0) + max(
            scale * mass(p, token) - 1.0, 0.0
        )
    return float(xp.sum(_excess(p, q, scale, xp), dtype=xp.float64))


def carried(z: float, scale: float) -> float:
    """Z / (Z + 1 − scale): what is left of a path's acceptance, `scale`, once what followed it was
    let go, Z being the mass that the draft left out. 0 where Z is 0."""
    return z / (z + (1 - scale)) if z > 0 else 0.0  # so grouped, it cannot divide by 0


def total_variation(p: Any, q: Any) -> float:
    """½ Σ |p − q|, in float64."""
    p = host(p) if isinstance(p, SparseLaw) else p
    xp = array_namespace(p)
    return 0.5 * float(xp.sum(xp.abs(p - _beside(q, p, xp)), dtype=xp.float64))


def _excess(p: Any, q: Any, scale: float, xp: Any) -> Any:
    """[scale·p − q]+, p an array."""
    if isinstance(q, SparseLaw) and type(p) is np.ndarray:
        r = scale * p
        r[q.ids] = (r[q.ids] - q.p).clip(min=0)
        return r
    return xp.clip(scale * p - _beside(q, p, xp), min=0)


def _excess_on_support(p: SparseLaw, q: Any, token: int, scale: float) -> Any:
    """[scale·p − q]+ of the tokens to which p gives mass; of all others it is 0."""
    if q is None:
        drafted = (p.ids == token).astype(p.dtype)
    else:
        drafted = q.at(p.ids) if isinstance(q, SparseLaw) else host(q)[p.ids]
    return (scale * p.p - drafted).clip(min=0)


def _beside(q: Any, p: Any, xp: Any) -> Any:
    """q where p lives: draft and target may be on different devices, or in different libraries."""
    q = host(q) if isinstance(q, SparseLaw) else q
    return q if type(q) is type(p) and device(q) == device(p) else xp.asarray(q, device=device(p))
