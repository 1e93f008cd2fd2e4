"""How far a head's laws are from the target's, over the steps of its own unrolling.

    loss = Σ_k weight_k · Σ_pairs KL(p ‖ q_k) / pairs        less p's entropy, which does not change

p is the target's law over the draft's vocabulary, renormalised: softmax of its output matrix times
its last state. Step k reads what the head made itself in step k − 1, so a head learns to follow its
own mistakes (EAGLE-3, section 3.1). In the end the distance itself may be trained in place of KL:
1 − Σ min(p, q), the probability of a rejection.

The laws are as wide as the draft's vocabulary, and to read and write them takes longer than to
multiply. So they are made for a few rows at a time, which fit in the processor's cache, and turned
at once into what they are for, the gradient: d loss / d logits = q − p. The rows of all steps that
guess the same token share their p:

    guess t5      step 0 from pair 3, step 1 from pair 2, step 2 from pair 1

What this module does not know: how a head computes its states, files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from forerun.train.batches import Rows

WEIGHTS = (1.0, 0.8, 0.6)  # of the steps
EARLY = WEIGHTS[:2]  # while steps are few
_CHUNK = 64  # laws at a time


def unrolled_loss(
    states: Sequence[torch.Tensor],
    matrix: torch.Tensor,
    rows: Rows,
    output: torch.Tensor,
    *,
    weights: Sequence[float] = WEIGHTS,
    distance: bool = False,
) -> torch.Tensor:
    """The loss of a batch.

    states    [R, h] of each step, before `matrix`
    matrix    [D, h], the head's own
    output    [D, h], the target's, of the ids that can be drafted; in the type to multiply in
    distance  1 − Σ min(p, q) in place of KL
    """
    apply: Callable[..., torch.Tensor] = _Loss.apply
    return apply(matrix, rows, output, tuple(weights), distance, *states)


class _Loss(torch.autograd.Function):
    """The gradients are found with the loss itself; later they are only handed out."""

    @staticmethod
    def forward(
        ctx: Any,
        matrix: torch.Tensor,
        rows: Rows,
        output: torch.Tensor,
        weights: tuple[float, ...],
        distance: bool,
        *states: torch.Tensor,
    ) -> torch.Tensor:
        kind = output.dtype
        narrow, seen = matrix.to(kind), [one.to(kind) for one in states]
        labels = rows.labels.to(kind)
        found = [torch.zeros_like(one) for one in seen]
        known = [torch.nonzero(rows.ahead > k).squeeze(-1) for k in range(len(states))]
        count = sum(map(len, known))
        g_ND = torch.empty((count, len(matrix)), dtype=kind)  # d loss / d logits
        read_Nh = torch.empty((count, matrix.shape[1]), dtype=kind)
        scales = [weight / sum(weights) / len(labels) for weight in weights]
        total, done = 0.0, 0
        for start in range(0, len(labels), _CHUNK):
            p = torch.softmax(labels[start : start + _CHUNK] @ output.T, -1, dtype=torch.float32)
            for k, scale in enumerate(scales):
                first, last = torch.searchsorted(
                    known[k] + k, torch.tensor([start, start + len(p)])
                )
                at = known[k][first:last]
                if not len(at):
                    continue
                wanted = p[at + k - start]
                q = torch.softmax(seen[k][at] @ narrow.T, dim=-1, dtype=torch.float32)
                if distance:
                    more, g = _distance(q, wanted)
                else:
                    more, g = _divergence(q, wanted)
                total += scale * more
                stop = done + len(at)
                g_ND[done:stop] = g.mul_(scale)
                read_Nh[done:stop] = seen[k][at]
                found[k][at] = g_ND[done:stop] @ narrow
                done = stop
        ctx.save_for_backward((g_ND.T @ read_Nh).to(matrix.dtype), *found)
        return torch.tensor(total)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        of_matrix, *of_states = ctx.saved_tensors
        return (of_matrix * gradient, None, None, None, None, *(g * gradient for g in of_states))


def _divergence(q: torch.Tensor, p: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Σ of −Σ p log q over the rows, and its gradient by the logits; q is used up."""
    loss = -torch.linalg.vecdot(p, q.clamp(min=1e-30).log_()).sum()
    return float(loss), q.sub_(p)


def _distance(q: torch.Tensor, p: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Σ of 1 − Σ min(p, q), and its gradient: of −Σ_{q<p} q it is q · (Σ_{q<p} q − [q < p])."""
    less = q < p
    below = (q * less).sum(dim=-1, keepdim=True)
    loss = len(q) - torch.minimum(q, p).sum()
    return float(loss), q * (below - less.float())
