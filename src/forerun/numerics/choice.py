"""What a pass may give in the place of a row of logits: what will be made of it, made already.

    Step(..., params=params)                 the round: of these rows only the laws will be asked
    rows[0] -> Choice(17, V)                 the model, at temperature 0: the largest is token 17
    rows[0] -> Made(params, 49, ids, p, V)   or else: the law, as `numerics/fused.py` makes it
    law(rows[0], params, history)            that law, as from the row of logits

A pass that gives choices need not write V logits for each row, nor need anyone read them again;
laws are made by all its threads. It will do where nothing `adjusts` the logits before.

What this module does not know: models.
"""

from __future__ import annotations

from typing import Any

from forerun.numerics.fused import as_law, checked
from forerun.numerics.sparse_law import SparseLaw
from forerun.sampling import SamplingParams


class Choice:
    """`found`: the id of the largest of `size` logits, the first of equals; or, below 0, why there
    is none, in the library's numbers (`fused.checked`)."""

    __slots__ = ("found", "size")

    def __init__(self, found: int, size: int) -> None:
        self.found, self.size = found, size

    def law(self, params: SamplingParams) -> Any:
        """By such `params`. LawError where the logits held NaN, +inf, or −inf alone."""
        assert params.temperature == 0
        return SparseLaw.certain(checked(self.found), self.size)


class Made(Choice):
    """A law by `params`: `p` of all tokens, or of the first `found` of `ids`; or, with `found`
    below 0, why there is none."""

    __slots__ = ("_ids", "_p", "_params")

    def __init__(self, params: SamplingParams, found: int, ids: Any, p: Any, size: int) -> None:
        super().__init__(found, size)
        self._params, self._ids, self._p = params, ids, p

    def law(self, params: SamplingParams) -> Any:
        assert params is self._params
        return as_law(checked(self.found), self._ids, self._p, params, self.size)


def adjusts(params: SamplingParams, output_length: int) -> bool:
    """Whether anything changes the logits before the temperature; if not at that length, then at no
    later one."""
    masks = params.banned or output_length < params.min_tokens
    return bool(masks or params.logit_bias or params.uses_history)
