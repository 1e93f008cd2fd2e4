"""How the steps of one pass lie in a batch: columns, positions, and who sees whom.

Shapes: B steps, N columns (the longest step), T keys (the longest slot after the pass).

Steps end in the same column, so that wanted rows stand together at the right edge; the columns
before a shorter step are padding. Keys are in cache order: what the slot held, then the new tokens
in the order given. A token's position is its depth in the text, not its index in the cache:

    slot holds 2 tokens; step tokens (a b c), parents (-1 0 0)      text: x y a b   and   x y a c

    cache index      0 1 2 3 4            visible to a   1 1 1 . .
    token            x y a b c                       b   1 1 1 1 .
    position         0 1 2 3 3                       c   1 1 1 . 1

A sliding window of w hides keys whose position is w or more below the query's; because it goes by
position, it is right along every path of a tree. Padding queries see key 0 of their own slot, so
that no softmax is over nothing.

What this module does not know: models, and how keys are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from forerun.models.base import Step


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One pass. Row b's slot held `before[b]` tokens and gets `counts[b]` new ones, at least 1."""

    slots: tuple[int, ...]
    before: tuple[int, ...]
    counts: tuple[int, ...]
    tokens_BN: torch.Tensor  # int64; padding is token 0
    positions_BN: torch.Tensor  # int64; padding is position 0
    key_positions_BT: torch.Tensor  # int64
    ancestors_BNT: torch.Tensor  # bool: cached, an ancestor, or the token itself

    @property
    def width(self) -> int:
        return max(self.counts)

    @property
    def total(self) -> int:
        return max(self.ends)

    @property
    def ends(self) -> tuple[int, ...]:
        """Tokens in each slot after the pass."""
        return tuple(b + n for b, n in zip(self.before, self.counts))

    def visible(self, *, window: int | None = None, chunk: int | None = None) -> torch.Tensor:
        """bool [B, 1, N, T]: full attention, a sliding window, or chunks of the text."""
        seen_BNT = self.ancestors_BNT
        query_BN1 = self.positions_BN[:, :, None]
        key_B1T = self.key_positions_BT[:, None, :]
        if window is not None:
            seen_BNT = seen_BNT & (query_BN1 - key_B1T < window)
        if chunk is not None:
            seen_BNT = seen_BNT & (query_BN1 // chunk == key_B1T // chunk)
        for row, count in enumerate(self.counts):
            if pad := self.width - count:
                seen_BNT = seen_BNT.clone() if seen_BNT is self.ancestors_BNT else seen_BNT
                seen_BNT[row, :pad, 0] = True
        return seen_BNT[:, None]


def lay_out(steps: Sequence[Step], before: Sequence[int], device: torch.device) -> Layout:
    """The layout of `steps`, each with at least one token; `before`: lengths of their slots."""
    counts = tuple(len(step.tokens) for step in steps)
    width = max(counts)
    total = max(b + n for b, n in zip(before, counts))
    tokens_BN = torch.zeros(len(steps), width, dtype=torch.int64)
    positions_BN = torch.zeros(len(steps), width, dtype=torch.int64)
    key_positions_BT = torch.arange(total).repeat(len(steps), 1)
    ancestors_BNT = torch.zeros(len(steps), width, total, dtype=torch.bool, device=device)
    for row, (step, start, count) in enumerate(zip(steps, before, counts)):
        left = width - count
        depths, among = _tree(step.parents, count)
        tokens_BN[row, left:] = torch.as_tensor(step.tokens, dtype=torch.int64)
        positions_BN[row, left:] = start + depths
        key_positions_BT[row, start : start + count] = start + depths
        ancestors_BNT[row, left:, :start] = True
        ancestors_BNT[row, left:, start : start + count] = among.to(device)
    return Layout(
        slots=tuple(step.slot for step in steps),
        before=tuple(before),
        counts=counts,
        tokens_BN=tokens_BN.to(device),
        positions_BN=positions_BN.to(device),
        key_positions_BT=key_positions_BT.to(device),
        ancestors_BNT=ancestors_BNT,
    )


def _tree(parents: Sequence[int] | None, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Depth below the cached text (0 for its children), and [count, count]: j is i or above it."""
    if parents is None or tuple(parents) == tuple(range(-1, count - 1)):
        return torch.arange(count), torch.ones(count, count, dtype=torch.bool).tril()
    depths = [0] * count
    among = torch.eye(count, dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            depths[i] = depths[parent] + 1
            among[i] |= among[parent]
    return torch.tensor(depths), among
