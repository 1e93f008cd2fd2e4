"""Heads without attention: see `models/heads/mlp_checkpoint.py` for the forms and their sources.

    y = f + W_i silu(U_i [f, e(t), e(x_0), …])        of depth i, from pair (t, f)

Unrolled, the head of depth i reads what the text has in place of what would have been drafted.

Parameters have the names that they have in checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import silu

from forerun.models.heads.mlp_checkpoint import MLPConfig
from forerun.train.batches import Rows

DEPTHS = 5
WEIGHTS = (1.0, 0.8, 0.6, 0.5, 0.4)  # of the depths in the loss


class Block(nn.Module):
    def __init__(self, config: MLPConfig, depth: int) -> None:
        super().__init__()
        self.up = nn.Linear(config.reads(depth) * config.hidden, config.width, bias=False)
        if config.form != "medusa":
            self.down = nn.Linear(config.width, config.hidden, bias=False)

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = silu(self.up(read))
        if hasattr(self, "down"):
            y = self.down(y)
        return y


class MLPHeads(nn.Module):
    """`embedding` [V, h] is the target's, and no parameter."""

    def __init__(self, config: MLPConfig, embedding: torch.Tensor) -> None:
        super().__init__()
        self._config, self._embedding = config, embedding
        self.heads = nn.ModuleList([Block(config, i) for i in range(config.depths)])
        self.norm = nn.RMSNorm(config.hidden, config.epsilon)
        self.lm_head = nn.Linear(config.hidden, config.draft_vocabulary, bias=False)

    def unrolled(self, rows: Rows, steps: int) -> Iterator[torch.Tensor]:
        """The states [R, h] that `lm_head` reads, of each depth in turn."""
        f = self._unit(rows.features[rows.trained])
        read = [f]
        for depth, block in enumerate(self.heads[:steps]):
            if self._config.form == "hydra":
                read.append(self._unit(self._embedding[rows.tokens[rows.trained + depth]].float()))
            yield self.norm(f + block(torch.cat(read, dim=-1)).float())

    def _unit(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], None, self._config.epsilon)
