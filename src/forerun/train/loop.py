"""Updates of a head, and its state on disk.

    training = Training(head, corpus, output, seed=0, workers=workers)
    training.update(fraction)        one update, at 0 (its beginning) to 1 (its end) of the schedule
    training.save(path);  training.load(path)

Many small updates at a high rate, which falls linearly to nothing, brought most (docs/LOG.md);
where there is time for few they are smaller still (`fit`). In the first part of the schedule fewer
steps are unrolled, so that more tokens are seen; in the last one the distance to the target's law
is trained in place of KL.

Each of the workers takes texts of its own through the head and back; they meet once an update.

A state on disk is there whole or not at all, and holds all that decides how training goes on.

What this module does not know: the clock, and what the head is for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from forerun.train.batches import Corpus
from forerun.train.loss import EARLY, WEIGHTS, unrolled_loss
from forerun.train.workers import Workers

RATE, WARM_UP = 3e-3, 50  # of Adam; updates over which it rises
AGAIN = 1e-3  # the rate of a head that was trained before
PAIRS, LEAST_PAIRS = 600, 150  # of an update; fewer where there are few
UPDATES = 1000  # that there should be
FEWER = 0.6  # of the schedule, at its beginning, that unrolls only the steps of EARLY
DISTANCE = 0.08  # of the schedule, at its end, that trains the distance


class Training:
    """`output` [D, h] is the target's matrix, of the ids that can be drafted.

    `weights` of the steps in the loss, `early` those of the first part of the schedule.
    """

    def __init__(
        self,
        head: Any,
        corpus: Corpus,
        output: torch.Tensor,
        *,
        seed: int,
        workers: Workers,
        weights: Sequence[float] = WEIGHTS,
        early: Sequence[float] = EARLY,
        pairs: int = PAIRS,
        rate: float = RATE,
    ) -> None:
        self.head, self._corpus, self._output = head, corpus, output
        self._weights, self._early = weights, early
        self._seed, self.pairs, self._rate = seed, pairs, rate
        self._workers = workers
        self._parameters = list(head.parameters())
        self._adam = torch.optim.Adam(self._parameters, lr=rate, betas=(0.9, 0.95), fused=True)
        self.updates = self.tokens = 0
        self.epoch, self._done = 0, 0  # of this epoch, batches behind us
        self._ahead: Iterator[list[list[int]]] = iter(())
        self._deal()

    def update(self, fraction: float) -> float:
        """Train on the next batch; its loss a token."""
        shares = next(self._ahead, None)
        if shares is None:
            self.epoch, self._done = self.epoch + 1, 0
            self._deal()
            shares = next(self._ahead)
        weights = self._early if fraction < FEWER else self._weights
        distance = fraction >= 1 - DISTANCE
        found = self._workers.map(partial(self._gradients, weights, distance), shares)
        tokens = sum(count for count, _, _ in found)
        for i, parameter in enumerate(self._parameters):
            parameter.grad = torch.stack([n / tokens * of[i] for n, _, of in found]).sum(dim=0)
        warm = min((self.updates + 1) / WARM_UP, 1.0)
        for group in self._adam.param_groups:
            group["lr"] = self._rate * warm * max(1 - fraction, 0.0)
        self._adam.step()
        self.updates, self._done = self.updates + 1, self._done + 1
        self.tokens += tokens
        return sum(count / tokens * loss for count, loss, _ in found)

    def fit(self, seconds: float, now: Callable[[], float]) -> None:
        """Before the first update: make updates smaller where these seconds are too few for UPDATES
        of them, by what some text takes now."""
        shares = next(self._ahead)
        self._workers.map(partial(self._gradients, self._early, False), shares)  # it warms up
        began = now()
        self._workers.map(partial(self._gradients, self._early, False), shares)
        pairs = sum(len(self._corpus.pieces[i]) for share in shares for i in share)
        fitting = pairs * seconds / max(now() - began, 1e-9) / UPDATES
        self.pairs = int(min(max(fitting, LEAST_PAIRS), self.pairs))
        self._deal()

    def _gradients(
        self, weights: Sequence[float], distance: bool, group: Sequence[int]
    ) -> tuple[int, float, tuple[torch.Tensor, ...]]:
        """Of one thread's texts: trained tokens, loss, and what it gives for each parameter."""
        rows = self._corpus.rows(group, len(weights))
        narrow = self._output.dtype != torch.float32
        with torch.autocast("cpu", self._output.dtype) if narrow else nullcontext():
            loss = unrolled_loss(
                list(self.head.unrolled(rows, len(weights))),
                self.head.lm_head.weight,
                rows,
                self._output,
                weights=weights,
                distance=distance,
            )
        return len(rows.trained), float(loss.detach()), torch.autograd.grad(loss, self._parameters)

    def _deal(self) -> None:
        """The epoch's batches from where we are: each a group of texts for every thread."""
        dice = torch.Generator().manual_seed(1_000_003 * self._seed + self.epoch)
        order = torch.randperm(len(self._corpus), generator=dice).tolist()
        share = self._workers.threads
        groups = list(self._corpus.batches(order, self.pairs // share))
        batches = [groups[i : i + share] for i in range(0, len(groups), share)]
        self._ahead = iter(batches[self._done :])

    # ------------------------------------------------------------------ on disk

    def save(self, path: Path, **more: Any) -> None:
        state = {
            "head": self.head.state_dict(),
            "adam": self._adam.state_dict(),
            "updates": self.updates,
            "tokens": self.tokens,
            "epoch": self.epoch,
            "done": self._done,
            "pairs": self.pairs,
            **more,
        }
        fresh = path.with_name(path.name + ".part")
        with fresh.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)

    def load(self, path: Path) -> dict[str, Any]:
        """Go on from there; what else was saved."""
        state: dict[str, Any] = torch.load(path, weights_only=True)
        self.head.load_state_dict(state.pop("head"))
        self._adam.load_state_dict(state.pop("adam"))
        self.updates, self.tokens = state.pop("updates"), state.pop("tokens")
        self.epoch, self._done = state.pop("epoch"), state.pop("done")
        self.pairs = state.pop("pairs", PAIRS)
        self._deal()
        return state


def initialised(head: Any, seed: int, output: torch.Tensor) -> Any:
    """Random matrices that keep a vector's length; norms of one; as its own output matrix the
    target's `output` [D, h], of the ids that can be drafted."""
    dice = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, parameter.shape[1] ** -0.5, generator=dice)
        head.lm_head.weight.copy_(output)
    return head


def quicker_type() -> torch.dtype:
    """bfloat16 where the processor multiplies it by itself, else float32."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if known() else torch.float32
