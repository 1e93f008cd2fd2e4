"""A row of logits of which nothing is known but the largest: all that greedy decoding looks at.

    Step(..., choices=True)                  the round: of these rows only the largest will be asked
    rows[0] -> Choice(17, V)                 the model: it is token 17 of V
    law(rows[0], params, history)            the point mass on it, as from the whole row

A pass that gives choices need not write V logits for each row, nor need anyone read them again.
Only `decided_by_largest` says when that will do.

What this module does not know: models.
"""

from __future__ import annotations

from forerun.numerics.fused import checked
from forerun.numerics.sparse_law import SparseLaw
from forerun.sampling import SamplingParams


class Choice:
    """`found`: the id of the largest of `size` logits, the first of equals; or, below 0, why there
    is none, in the library's numbers (`fused.checked`)."""

    __slots__ = ("found", "size")

    def __init__(self, found: int, size: int) -> None:
        self.found, self.size = found, size

    def law(self) -> SparseLaw:
        """LawError where the logits held NaN, +inf, or −inf alone."""
        return SparseLaw.certain(checked(self.found), self.size)


def decided_by_largest(params: SamplingParams, output_length: int) -> bool:
    """Whether the law at that length, and at all later ones, is that of the raw row's largest
    logit."""
    return params.temperature == 0 and not adjusts(params, output_length)


def adjusts(params: SamplingParams, output_length: int) -> bool:
    """Whether anything changes the logits before the temperature."""
    masks = params.banned or output_length < params.min_tokens
    return bool(masks or params.logit_bias or params.uses_history)
