"""Logits become probabilities here, and only here: `law(logits, params, history)`.

One cast to float32 (float64 stays float64), then in this order:

    repetition penalty (prompt and output), presence, frequency (output only)
    logit bias · user processors · masks (bans; min-tokens holds back every end token; a grammar's)
    temperature · top-k · top-p · min-p · renormalise

The same function serves target and draft, and `history` is that of *this* position: drafted
tokens before it included. Where a grammar leaves nothing but an end, min-tokens gives way. Each of
top-k, top-p and min-p acts on the renormalised law the one before it left. Ties go to the lower id.
Temperature 0 is the point mass on the largest logit.

V is the vocabulary. Works on NumPy arrays and torch tensors of any device, one row at a time, so
that a row's law is bitwise the same alone and in a batch. What comes after the masks is done in C
for float32 rows in NumPy, where the C library is there (`fused.py`); a law that is cut then comes
as a `SparseLaw`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from forerun.errors import GrammarError, LawError
from forerun.numerics import fused
from forerun.numerics.choice import Choice, adjusts
from forerun.numerics.sparse_law import SparseLaw
from forerun.sampling import SamplingParams


@dataclass(frozen=True)
class History:
    """The ids before a position: `ids` (prompt, then output) and the drafted `path` after them."""

    ids: Sequence[int]
    prompt_length: int
    path: tuple[int, ...] = ()

    @property
    def output_length(self) -> int:
        return len(self.ids) - self.prompt_length + len(self.path)

    def all_ids(self) -> list[int]:
        return [*self.ids, *self.path]


def law(logits: Any, params: SamplingParams, history: History, allowed: Any = None) -> Any:
    """The law [V] of the next token, given logits [V], or a `Choice`, and the ids before it.

    `allowed`, a NumPy array [V] of booleans, is a grammar's mask of this position. Raises LawError
    if the logits hold NaN or +inf, or if no token is left; GrammarError if that is so
    under a grammar.
    """
    if isinstance(logits, Choice):
        assert allowed is None
        assert not adjusts(params, history.output_length)
        return logits.law(params)
    l = _adjusted(logits, params, history, allowed)
    return fused.law(l, params) if fused.serves(l) else defined_law(l, params)


@np.errstate(over="ignore")  # far below the largest logit, a quotient may well be −inf
def defined_law(l: Any, params: SamplingParams) -> Any:
    """The law of logits that penalties, bias, processors and masks have gone over."""
    xp = array_namespace(l)
    top = xp.max(l)
    if not bool(top < xp.inf):  # NaN too
        raise LawError(fused.BAD_LOGITS)
    if not bool(top > -xp.inf):
        raise LawError(fused.NO_TOKEN)
    if params.temperature == 0:
        return _one_hot(xp.argmax(l), l, xp)
    w = xp.exp((l - top) / params.temperature)  # unnormalised, the largest is exactly 1
    if 0 < params.top_k < w.shape[0]:
        w = _keep_largest(w, params.top_k, xp)
    if params.top_p < 1:
        w = _keep_nucleus(w, params.top_p, xp)
    if params.min_p > 0:
        w = xp.where(w >= params.min_p, w, xp.zeros_like(w))
    return w / xp.sum(w)


def point_mass(token: int, like: Any) -> Any:
    """The law [V] of certainty, where `like` [V] lives."""
    if isinstance(like, Choice):
        return SparseLaw.certain(token, like.size)
    if fused.serves(like):
        return SparseLaw.certain(token, len(like))
    return _one_hot(token, like, array_namespace(like))


def _adjusted(logits: Any, params: SamplingParams, history: History, allowed: Any) -> Any:
    """The logits after the masks; they themselves where nothing is asked that would change them."""
    changes = allowed is not None or adjusts(params, history.output_length)
    if not changes and fused.serves(logits):
        return logits
    xp = array_namespace(logits)
    with np.errstate(over="ignore"):
        return _masked(_processed(logits, params, history, xp), params, history, allowed, xp)


def _processed(logits: Any, params: SamplingParams, history: History, xp: Any) -> Any:
    """Penalties, bias and user processors, on a copy in float32 or better."""
    dtype = logits.dtype if logits.dtype == xp.float64 else xp.float32
    l = xp.astype(logits, dtype, copy=True)
    ids = history.all_ids() if params.uses_history else []
    if ids:
        if params.repetition_penalty != 1:
            seen = _index(sorted(set(ids)), l, xp)
            r, old = params.repetition_penalty, l[seen]
            l[seen] = xp.where(old > 0, old / r, old * r)
        counts = Counter(ids[history.prompt_length :])
        if counts and (params.presence_penalty or params.frequency_penalty):
            seen = _index(list(counts), l, xp)
            n = xp.astype(_index(list(counts.values()), l, xp), dtype)
            l[seen] = l[seen] - (params.presence_penalty + params.frequency_penalty * n)
    if params.logit_bias:
        biased, bias = params.biases
        named = _index(biased, l, xp)
        l[named] = l[named] + xp.asarray(bias, dtype=dtype, device=device(l))
    for processor in params.processors:
        try:
            l = processor(ids, l)
        except Exception as error:
            raise LawError(f"a processor failed: {type(error).__name__}: {error}") from error
        if type(l) is not type(logits):
            raise LawError(f"a processor must return the logits, not {type(l).__name__}")
        if l.shape != logits.shape:
            raise LawError(f"a processor returned shape {tuple(l.shape)} for {tuple(logits.shape)}")
        if not xp.isdtype(l.dtype, "real floating"):
            raise LawError(f"a processor returned {l.dtype}, where logits are {dtype}")
        l = xp.astype(l, dtype, copy=False)
    return l


def _masked(l: Any, params: SamplingParams, history: History, allowed: Any, xp: Any) -> Any:
    held = params.end_ids if history.output_length < params.min_tokens else frozenset()
    if allowed is not None:
        if held and np.count_nonzero(allowed) == np.count_nonzero(allowed[sorted(held)]):
            held = frozenset()
        l = xp.where(xp.asarray(allowed, device=device(l)), l, -xp.inf)
    if ids := params.banned | held:
        l[_index(sorted(ids), l, xp)] = -xp.inf
    if allowed is not None and bool(xp.all(l == -xp.inf)):
        raise GrammarError(fused.NO_TOKEN)
    return l


def _keep_largest(w: Any, k: int, xp: Any) -> Any:
    """Zero all but the k largest; ties with the k-th go to the lower id."""
    band, count, _ = _band(w, lambda count, mass: count >= k, xp)
    return _from_threshold(w, band[k - count - 1], k, xp)


def _keep_nucleus(w: Any, top_p: float, xp: Any) -> Any:
    """Zero all but the smallest set of largest weights whose share reaches top_p."""
    goal = top_p * _sum(w, xp)
    band, count, mass = _band(w, lambda count, mass: mass >= goal, xp)
    more = _count_reaching(band, goal - mass, xp)
    return _from_threshold(w, band[more - 1], count + more, xp)


def _band(w: Any, enough: Callable[[int, float], bool], xp: Any) -> tuple[Any, int, float]:
    """Where the threshold lies: weights between two cuts, in falling order; count and sum above.

    `enough` says of the number and the sum of the weights above a cut whether they are. Language
    models' laws are peaked: comparing with a constant (weights are at most 1) and sorting the few
    between two cuts costs a tenth of sorting the vocabulary.
    """
    count, mass, upper = 0, 0.0, 2.0
    for cut in (2.0**-6, 2.0**-10, 2.0**-14, 2.0**-20, 0.0):
        above = w >= cut
        n, m = int(xp.count_nonzero(above)), _sum(w * xp.astype(above, w.dtype), xp)
        if enough(n, m):  # at 0 always
            break
        count, mass, upper = n, m, cut
    band = xp.take(w, xp.nonzero(above & (w < upper))[0])
    return xp.sort(band, descending=True, stable=False), count, mass


def _count_reaching(descending: Any, goal: float, xp: Any) -> int:
    """How many leading weights it takes to sum to `goal`; all, where rounding falls short of it."""
    start, end, total = 0, descending.shape[0], 0.0
    while end - start > 1024:  # halve by plain sums: a running sum is far slower
        middle = (start + end) // 2
        upto = total + _sum(descending[start:middle], xp)
        if upto >= goal:
            end = middle
        else:
            start, total = middle, upto
    sums = total + xp.cumulative_sum(descending[start:end], dtype=xp.float64)
    return min(start + int(xp.count_nonzero(sums < goal)) + 1, int(descending.shape[0]))


def _from_threshold(w: Any, threshold: Any, k: int, xp: Any) -> Any:
    """Weights above the threshold, and of those equal to it the first, until there are k."""
    above = w >= threshold
    kept = w * xp.astype(above, w.dtype)  # all finite; faster than a select
    surplus = int(xp.count_nonzero(above)) - k
    if surplus > 0:
        ties = xp.nonzero(w == threshold)[0]
        kept[ties[ties.shape[0] - surplus :]] = 0
    return kept


def _sum(w: Any, xp: Any) -> float:
    return float(xp.sum(w, dtype=xp.float64))


def _one_hot(i: Any, like: Any, xp: Any) -> Any:
    p = xp.zeros_like(like)
    p[i] = 1
    return p


def _index(ids: Any, like: Any, xp: Any) -> Any:
    return xp.asarray(ids, dtype=xp.int64, device=device(like))
