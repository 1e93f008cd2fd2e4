"""How much of a head's drafts its target accepts, by depth, on texts it was not trained on.

A text drawn from the target at T = 1 tells it without any drafting. Along it the head's chain reads
the text's own tokens, as if they had been drafted and accepted, and

    S_1 = E Σ_x min(p, q)                                     a draft of one token is kept
    S_k = E Π_{j<k} min(1, q_j(x_j) / p_j(x_j)) · Σ_x min(p_k, q_k)       k tokens are

for token x was drafted and kept with probability min(p, q)(x), where the text has it with p(x).
Greedy texts tell the same of T = 0: a token is kept where it is the likeliest of both. Acceptance
at depth k is S_k / S_{k−1}, and a pass over k drafted tokens gives 1 + S_1 + … + S_k in the mean.
Pairs that the text does not follow for `DEPTH` tokens are left out.

What this module does not know: what drafting costs; who else drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from forerun.models.base import Model, Step
from forerun.train.batches import Corpus, Rows
from forerun.train.features import rows_of
from forerun.train.loop import quicker_type
from forerun.train.target import Ids
from forerun.train.texts import Text
from forerun.train.workers import Workers

DEPTH = 5
_PAIRS = 500  # at a time


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """`survival[k − 1]` is S_k. `tokens` places were looked at."""

    survival: tuple[float, ...]
    tokens: int

    @property
    def by_depth(self) -> tuple[float, ...]:
        """Of tokens at each depth, those accepted among those whose forerunners were."""
        before = (1.0, *self.survival[:-1])
        return tuple(s / b if b else 0.0 for s, b in zip(self.survival, before))

    @property
    def tokens_per_pass(self) -> float:
        """With chains of DEPTH tokens, always."""
        return 1 + sum(self.survival)


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Of each row of states: the log of Σ exp(logits), and the likeliest id. [N] each."""

    normalisers: torch.Tensor
    likeliest: torch.Tensor


def laws(model: Model, texts: Sequence[Text], path: Path) -> Laws:
    """By the model's own logits; kept in `path`, and read from there where they are for as many
    rows."""
    count = sum(map(rows_of, texts))
    if path.exists():
        kept = np.load(path)
        if len(kept["likeliest"]) == count:
            return _laws(kept["normalisers"], kept["likeliest"])
    normalisers, likeliest = [], []
    for text in texts:
        slot = model.open()
        try:
            logits = np.asarray(model.extend([Step(slot=slot, tokens=text.ids[:-1])])[0])
        finally:
            model.close(slot)
        most = logits.max(axis=1, keepdims=True)
        normalisers.append(most[:, 0] + np.log(np.exp(logits - most).sum(axis=1)))
        likeliest.append(logits.argmax(axis=1))
    fresh = path.with_suffix(".part.npz")
    found = np.concatenate(normalisers).astype(np.float32), np.concatenate(likeliest)
    np.savez(fresh, normalisers=found[0], likeliest=found[1])
    fresh.replace(path)
    return _laws(*found)


def _laws(normalisers: Any, likeliest: Any) -> Laws:
    return Laws(
        normalisers=torch.from_numpy(normalisers.astype(np.float32)),
        likeliest=torch.from_numpy(likeliest.astype(np.int64)),
    )


class Judge:
    """Held-out texts of one temperature, 0 or 1, and the target's laws in them.

    output   [V, h], the target's matrix
    ids      [D], of the target, that can be drafted
    """

    def __init__(
        self, corpus: Corpus, found: Laws, output: torch.Tensor, ids: Ids, *, greedy: bool
    ) -> None:
        self._corpus, self._laws, self._greedy = corpus, found, greedy
        self._ids = torch.from_numpy(ids)
        self._output = output[self._ids].float()
        self._draft_id = torch.full((len(output),), -1)
        self._draft_id[self._ids] = torch.arange(len(ids))

    def acceptance(self, head: Any, workers: Workers, *, texts: int | None = None) -> Acceptance:
        """By the first so many texts; None: all."""
        groups = self._corpus.batches(range(len(self._corpus))[:texts], _PAIRS)
        found = workers.map(partial(self._survived, head), groups)
        places = sum(count for count, _ in found)
        if not places:
            return Acceptance(survival=(0.0,) * DEPTH, tokens=0)
        total = torch.stack([survived for _, survived in found]).sum(dim=0)
        return Acceptance(survival=tuple((total / places).tolist()), tokens=places)

    def _survived(self, head: Any, group: Sequence[int]) -> tuple[int, torch.Tensor]:
        """Places in some texts, and the sum of each depth's survival over them."""
        rows = self._corpus.rows(group, DEPTH)
        at = torch.nonzero(rows.ahead >= DEPTH).squeeze(-1)
        kind = quicker_type()
        survived, alive = torch.zeros(DEPTH), torch.ones(len(at))
        with torch.no_grad():
            with torch.autocast("cpu", kind, enabled=kind != torch.float32):
                steps = list(head.unrolled(rows, DEPTH))
            matrix = head.lm_head.weight.to(kind)
            for k, states in enumerate(steps):
                z = linear(states[at].to(kind), matrix).float()
                kept, goes_on = self._step(rows, at + k, z)
                survived[k] = (alive * kept).sum()
                alive = alive * goes_on
        return len(at), survived

    def _step(
        self, rows: Rows, at: torch.Tensor, z: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Whether a draft is kept, and whether the text's own token was, as a draft: [n] each."""
        if self._greedy:
            same = self._ids[z.argmax(dim=-1)] == self._laws.likeliest[rows.behind[at]]
            return same.float(), same.float()
        q = z.softmax(dim=-1)
        logits = linear(rows.labels[at], self._output)
        p = (logits.float() - self._laws.normalisers[rows.behind[at], None]).exp()
        token = self._draft_id[rows.guessed[at]]
        own = token.clamp(min=0)[:, None]
        ratio = (q.gather(1, own) / p.gather(1, own).clamp(min=1e-30)).squeeze(1).clamp(max=1)
        return torch.minimum(p, q).sum(dim=-1), torch.where(token >= 0, ratio, 0.0)
