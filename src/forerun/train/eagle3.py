"""The head of EAGLE-3 (Li et al. 2025, arXiv 2503.01840): a decoder layer on the target's states.

    g = fc(tapped states of token i)
    x = [norm(embedding of token i + 1), norm(g)]
    a = g + attention(x over all earlier pairs);   a = a + mlp(norm(a))
    law of token i + 2 = softmax(lm_head(norm(a)))

Unrolled as when it drafts (section 3.1, "training-time test"): the next step reads `a` in place of
g, because there is no g of a token that was only drafted. Its queries see the true pairs up to the
one it began from, and the pairs of its own chain:

    keys of     pair 0   1   2   3      step 1 of     0   1   2   3
    step 2 from pair 2:  x   x   x                            x       and itself

A pair's position for the rotation is that of the token whose feature it holds, as in vLLM, where
tokens are shifted by one against positions and states.

Parameters have the names they have in checkpoints of the `speculators` library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import nn
from torch.nn.functional import silu

from forerun.models.heads.config import HeadConfig
from forerun.train.batches import Rows


class Norm(nn.Module):
    """x / rms(x) · weight, in float32."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self._epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.rms_norm(x.float(), x.shape[-1:], self.weight, self._epsilon)


class Attention(nn.Module):
    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        h, wide = config.hidden, config.head_width
        self.heads, self.kv_heads, self.width = config.heads, config.kv_heads, wide
        self.q_proj = nn.Linear(2 * h, config.heads * wide, bias=False)
        self.k_proj = nn.Linear(2 * h, config.kv_heads * wide, bias=False)
        self.v_proj = nn.Linear(2 * h, config.kv_heads * wide, bias=False)
        self.o_proj = nn.Linear(config.heads * wide, h, bias=False)


class MLP(nn.Module):
    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        h, f = config.hidden, config.feed_forward
        self.gate_proj = nn.Linear(h, f, bias=False)
        self.up_proj = nn.Linear(h, f, bias=False)
        self.down_proj = nn.Linear(f, h, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down: torch.Tensor = self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))
        return down


class Layer(nn.Module):
    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.hidden_norm = Norm(config.hidden, config.epsilon)
        self.input_layernorm = Norm(config.hidden, config.epsilon)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config.hidden, config.epsilon)
        self.mlp = MLP(config)


class Eagle3(nn.Module):
    """`embedding` [V, h] is the target's, and no parameter."""

    def __init__(self, config: HeadConfig, taps: int, embedding: torch.Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(taps * config.hidden, config.hidden, bias=False)
        self.layers = nn.ModuleList([Layer(config)])
        self.norm = Norm(config.hidden, config.epsilon)
        self.lm_head = nn.Linear(config.hidden, config.draft_vocabulary, bias=False)
        self._embedding = embedding
        turns = torch.from_numpy(config.rotation.frequencies(None))
        angles = torch.arange(config.context)[:, None] * turns
        self._cos, self._sin = angles.cos().float(), angles.sin().float()

    @property
    def layer(self) -> Layer:
        return cast(Layer, self.layers[0])

    def unrolled(self, rows: Rows, steps: int) -> Iterator[torch.Tensor]:
        """The states [R, h] that `lm_head` reads, of each step in turn."""
        layer, trained = self.layer, rows.trained
        attention = layer.self_attn
        g = self.fc(rows.features)
        x = self._pair(rows.tokens[: len(g)], g)
        keys = [self._turned(attention.k_proj(x), rows.positions)]
        values = [self._split(attention.v_proj(x))]
        unseen = self._unseen(rows)
        x, a, positions = x[trained], g[trained], rows.positions[trained]
        for k in range(steps):
            if k:
                x = self._pair(rows.tokens[trained + k], a)
                keys.append(self._turned(attention.k_proj(x), positions + k))
                values.append(self._split(attention.v_proj(x)))
            q = self._turned(attention.q_proj(x), positions + k)
            a = a + attention.o_proj(self._attend(q, keys, values, unseen))
            a = a + layer.mlp(layer.post_attention_layernorm(a))
            yield self.norm(a)

    def _pair(self, tokens: torch.Tensor, feature: torch.Tensor) -> torch.Tensor:
        layer = self.layer
        embedded = layer.input_layernorm(self._embedding[tokens])
        return torch.cat([embedded, layer.hidden_norm(feature)], dim=-1)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, heads · width] -> [heads, rows, width]."""
        return x.view(len(x), -1, self.layer.self_attn.width).transpose(0, 1)

    def _turned(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Split, and each pair (i, i + width/2) of a head turned by its position."""
        first, second = self._split(x).float().chunk(2, dim=-1)
        cos, sin = self._cos[positions], self._sin[positions]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    def _unseen(self, rows: Rows) -> torch.Tensor:
        """[R, T]: pairs that a trained one does not see: of other texts, and behind it."""
        texts, at = rows.texts, torch.arange(len(rows.texts))
        later = at[None] > rows.trained[:, None]
        return later | (texts[None] != texts[rows.trained][:, None])

    def _attend(
        self,
        q: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
        unseen: torch.Tensor,
    ) -> torch.Tensor:
        """q [H, R, w] over the true pairs, `keys[0]` [G, T, w], and the chain's, [G, R, w] each."""
        attention = self.layer.self_attn
        groups, width = attention.kv_heads, attention.width
        count = q.shape[1]
        q = q.view(groups, -1, count, width) / width**0.5  # [G, H/G, R, w]
        true = torch.matmul(q, keys[0].unsqueeze(1).transpose(-1, -2)).float()
        true = true.masked_fill(unseen, -torch.inf)
        own = [(q * key.unsqueeze(1)).sum(-1, keepdim=True).float() for key in keys[1:]]
        weights = torch.cat([true, *own], dim=-1).softmax(dim=-1)
        size = true.shape[-1]
        out = torch.matmul(weights[..., :size].to(values[0].dtype), values[0].unsqueeze(1))
        for i, value in enumerate(values[1:]):
            out = out + weights[..., size + i, None] * value.unsqueeze(1)
        return out.reshape(-1, count, width).transpose(0, 1).reshape(count, -1)
