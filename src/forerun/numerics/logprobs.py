"""Log-probabilities of tokens under the model itself: log-softmax of its raw logits, in float64.

    logprob(x) = l_x − log Σ_y exp(l_y)          before penalties, bias, masks and temperature

They say what the model thinks of a token, not with what probability it was drawn: the law that is
sampled from is `distribution.law`. A row's figures depend on that row alone, so that they are
bitwise the same however many rows share a pass (where the backend's logits are).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from forerun.errors import LawError
from forerun.numerics.fused import BAD_LOGITS
from forerun.numerics.likeliest import likeliest
from forerun.numerics.randomness import host


@dataclass(frozen=True, kw_only=True)
class TokenLogprob:
    """A token's log-probability (natural logarithm), and the likeliest tokens of its position."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # id, logprob; falling, ties with the lower id first


def token_logprob(logits: Any, token: int, top: int) -> TokenLogprob:
    """Of `token` and the `top` likeliest, given the raw logits [V] of its position.

    `top` may hold fewer: tokens of probability 0 are left out. Raises LawError for NaN or +inf.
    """
    xp = array_namespace(logits)
    l = host(xp.astype(logits, xp.float64, copy=True))
    largest = l.max()
    if not -np.inf < largest < np.inf:  # NaN too
        raise LawError(BAD_LOGITS)
    l -= largest
    l -= np.log(np.exp(l).sum())
    return TokenLogprob(token=token, logprob=float(l[token]), top=likeliest(l, top, -np.inf))
