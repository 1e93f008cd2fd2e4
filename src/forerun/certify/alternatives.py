"""Named faults of speculative decoders: the law r(x | prefix) of a token under each, from p and q.

All are of one drafted position: a draft x ~ q is accepted with probability a(x), and a rejection is
corrected from some law c:  r(x) = q(x)·a(x) + (1 − Σ q·a)·c(x). The right one has a = min(1, p/q)
and c ∝ [p − q]+, whence r = p.

A fault is *excluded* by a time-uniform upper bound on the mean TV by which the engine has moved
towards it. With A = {r > p}, the engine emits a token of A with probability π + δ, π = p(A), where
δ = w·TV(p, r) if its law is (1 − w)·p + w·r; w ≥ 0 may differ from token to token and be hidden (it
is 0 where nothing was drafted). For λ > 0 and a = 1 − e^{−λ},

    E[e^{−λ·1[x ∈ A]}] = 1 − (π + δ)·a ≤ (1 − π·a)·e^{−δ·a}

so Π e^{−λ·1[x_t ∈ A_t]} / (1 − π_t·a) · e^{a·Σδ_t} is an e-process whatever the δ_t ≥ 0. A mean δ
at which the average of these over λ is 1/level or more is excluded. At π = ½ and no fault, that
takes about log(1/level) / (2·δ²) tokens: 69,000 for δ = 0.01 at 1e-6.

What this module does not know: whether an engine has one. Faults at other places (a cache that kept
a wrong token, noise used twice) have no such law; histograms find those.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from forerun.certify.bets import FaultSums, log_mix
from forerun.certify.law_verdict import AlternativeVerdict
from forerun.certify.observation import Array

Fault = Callable[[Array, Array], Array]
"""Laws p and q [N, V] -> the law r [N, V] of what a drafted position emits."""

LENIENCE = 0.95
FLOOR = 0.01  # of the acceptance, where p may be 0
STRICT = 0.8
TYPICAL = 0.3


def emitted(p: Array, q: Array, accept: Array, correction: Array) -> Array:
    """q·a + (1 − Σ q·a)·c, with laws p, q, c and acceptance a of shape [N, V]."""
    kept = q * accept
    found: Array = kept + (1 - kept.sum(axis=1, keepdims=True)) * correction
    return found


@np.errstate(divide="ignore", invalid="ignore")
def acceptance(p: Array, q: Array) -> Array:
    """min(1, p/q); 1 where nothing is drafted."""
    return np.where(q > 0, np.minimum(p / q, 1.0), 1.0)


def residual(p: Array, q: Array) -> Array:
    """[p − q]+, normalised; p where nothing is left."""
    excess = np.maximum(p - q, 0.0)
    mass = excess.sum(axis=1, keepdims=True)
    return np.where(mass > 0, excess / np.where(mass > 0, mass, 1.0), p)


def lenience(p: Array, q: Array, l: float = LENIENCE) -> Array:
    """A draft accepted with min(1, p/(l·q)) (Leviathan et al. 2023, A.5), corrected as ever."""
    return emitted(p, q, acceptance(p, l * q), residual(p, q))


def resample(p: Array, q: Array) -> Array:
    """Corrections drawn from p in place of the residual."""
    return emitted(p, q, acceptance(p, q), p)


def mixture(p: Array, q: Array) -> Array:
    """Drafts that go unjudged; a bonus from the draft; ε of it is (1 − ε)·p + ε·q."""
    return q


def argmax_draft(p: Array, q: Array) -> Array:
    """The draft's likeliest token, judged as though it had been drawn from q."""
    return emitted(p, favourite(p, q), acceptance(p, q), residual(p, q))


def favourite(p: Array, q: Array) -> Array:
    """One-hot [N, V] of the draft's likeliest token."""
    return one_hot(q.argmax(axis=1), q.shape[1])


def strict(p: Array, q: Array) -> Array:
    """Acceptance times 0.8, corrected as ever."""
    return emitted(p, q, STRICT * acceptance(p, q), residual(p, q))


def typical(p: Array, q: Array) -> Array:
    """A draft accepted where p is above a threshold (Cai et al. 2024, 3.3.1, without entropy)."""
    return emitted(p, q, (p > TYPICAL).astype(np.float64), residual(p, q))


def floor(p: Array, q: Array) -> Array:
    """A coin that accepts now and then what has p = 0."""
    return emitted(p, q, np.maximum(acceptance(p, q), FLOOR), residual(p, q))


def half_precision(p: Array, q: Array) -> Array:
    """A draft drawn from q, judged by q rounded to bfloat16."""
    rounded = bfloat16(q)
    return emitted(p, q, acceptance(p, rounded), residual(p, rounded))


def other_temperature(p: Array, q: Array) -> Array:
    """A draft drawn from q, judged by the q of half its temperature."""
    return emitted(p, q, acceptance(p, sharper(q)), residual(p, sharper(q)))


def sharper(q: Array) -> Array:
    """The law of half q's temperature."""
    found: Array = q**2 / (q**2).sum(axis=1, keepdims=True)
    return found


def bfloat16(x: Array) -> Array:
    """Rounded to 8 significant bits, ties to even, as float64."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


FAULTS: dict[str, Fault] = {
    "lenience 0.95": lenience,
    "draft mixture": mixture,
    "resample from p": resample,
    "argmax draft scored as sampled": argmax_draft,
    "acceptance × 0.8": strict,
    "acceptance by threshold": typical,
    "coin that accepts p = 0": floor,
    "q of another temperature": other_temperature,
    "q rounded to bf16": half_precision,
}
"""By the names that verdicts give them."""


COPIES = "copies of the text go unjudged"
"""What a lookup would draft is emitted whatever p says: needs no q, only the text."""


def one_hot(ids: NDArray[np.int64], size: int) -> Array:
    """[N, size]."""
    found: Array = np.equal(np.arange(size), ids[:, None]).astype(np.float64)
    return found


def hotter(p: Array) -> Array:
    return _power(p, 1 / 1.05)


def colder(p: Array) -> Array:
    return _power(p, 1.05)


def cut_tail(p: Array) -> Array:
    """Without the tokens of p < 0.01, as a cut at one place that is missing at another."""
    kept = np.where((p >= 0.01) | (p == p.max(axis=1, keepdims=True)), p, 0.0)
    found: Array = kept / kept.sum(axis=1, keepdims=True)
    return found


TARGET_FAULTS: dict[str, Callable[[Array], Array]] = {
    "temperature 5% higher": hotter,
    "temperature 5% lower": colder,
    "tail of p < 0.01 cut": cut_tail,
}
"""Faults that need no q."""


def _power(p: Array, exponent: float) -> Array:
    raised: Array = p**exponent
    found: Array = raised / raised.sum(axis=1, keepdims=True)
    return found


def judged(
    name: str, sums: FaultSums, level: float, claim: float, given: float = 0.0
) -> AlternativeVerdict:
    """What the sums say of one fault; `given` is taken off the log of its e-values."""
    return AlternativeVerdict(
        name=name,
        tokens=sums.tokens,
        mean_tv=sums.tv / max(sums.tokens, 1),
        bound=bound(sums, level, claim, given),
        log_e=sums.log_wealth() - given,
        claim=claim,
    )


def bound(sums: FaultSums, level: float, claim: float, given: float = 0.0) -> float:
    """Smallest mean TV that is excluded at `level`; 1 where none is."""
    against, needed = log_against(sums, claim), given - np.log(level)
    if not sums.tokens or against(1.0) < needed:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if against(middle) >= needed else (middle, high)
    return high


def log_against(sums: FaultSums, claim: float) -> Callable[[float], float]:
    """Mean TV δ -> log e-value AGAINST a move of that mean or more; it rises with δ."""
    down = sums.tilts < 0
    tilts = sums.tilts[down]
    paid = tilts * sums.favoured - sums.norm[down]
    slope = -np.expm1(tilts) * sums.tokens  # a·n
    best = np.isclose(tilts, -4 * claim)  # half the weight for the move that is of interest
    weights = np.where(best, 0.5, 0.5 / max(len(tilts) - 1, 1))
    return lambda delta: log_mix(paid + slope * delta, weights)
