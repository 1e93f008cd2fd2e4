"""A law without some of its tokens, renormalised: what the next of several children is drawn from.

What this module does not know: why those tokens are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from forerun.numerics.sparse_law import SparseLaw


def without(law: Any, tokens: Sequence[int]) -> Any | None:
    """`law` [V] given that it is none of `tokens`; None where no mass is left."""
    if not tokens:
        return law
    if isinstance(law, SparseLaw):
        kept = ~np.isin(law.ids, np.asarray(tokens))
        total = law.p[kept].sum()
        return SparseLaw(law.ids[kept], law.p[kept] / total, law.size) if total > 0 else None
    xp = array_namespace(law)
    left = xp.asarray(law, copy=True)
    for token in tokens:
        left[token] = 0.0
    total = xp.sum(left)
    return left / total if bool(total > 0) else None
