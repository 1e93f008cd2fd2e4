"""What a pass in C says of its wanted rows, and where: logits, choices, or laws.

    Wanted(logits=np.empty((W, V)))                    logits
    Wanted(choices=np.empty(W, np.int64), size=V)      ids of the largest, and no logits
    Wanted(logits=…, laws=Laws(params, V), size=V)     laws too: laws.made() then

What this module does not know: how a pass is run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forerun.models.native import kernels as c
from forerun.numerics.choice import Made
from forerun.numerics.fused import cuts
from forerun.sampling import SamplingParams


class Laws:
    """Room for the laws of rows of `size` logits, each by its own of `params`."""

    def __init__(self, params: Sequence[SamplingParams], size: int) -> None:
        self._params, self._size = params, size
        self._p = np.empty((len(params), size), dtype=np.float32)
        cut = any(map(cuts, params))
        self._ids = np.empty((len(params) if cut else 0, size), dtype=np.int32)
        self.asked = (c.CLaw * len(params))()
        p, ids = self._p.ctypes.data, self._ids.ctypes.data
        for i, (law, own) in enumerate(zip(self.asked, params)):
            law.temperature, law.top_k = own.temperature, min(own.top_k, size)
            law.top_p, law.min_p = own.top_p, own.min_p
            law.p = p + 4 * size * i
            law.ids = ids + 4 * size * i if cuts(own) else None

    def made(self) -> list[Made]:
        return [
            Made(own, law.found, self._ids[i] if law.ids else None, self._p[i], self._size)
            for i, (own, law) in enumerate(zip(self._params, self.asked))
        ]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """See above; of W rows."""

    logits: Any = None
    choices: Any = None
    laws: Laws | None = None
    size: int = 0  # logits of a row that choices and laws are of

    def fields(self, first: int) -> dict[str, Any]:
        """Of a pass over the wanted rows from `first` on."""
        asked = None
        if self.laws is not None:
            asked = ctypes.addressof(self.laws.asked) + first * ctypes.sizeof(c.CLaw)
        return {
            "logits": None if self.logits is None else self.logits[first:].ctypes.data,
            "choices": None if self.choices is None else self.choices[first:].ctypes.data,
            "laws": asked,
            "size": self.size,
        }
