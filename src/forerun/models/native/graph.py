"""What each architecture computes, as a flat list of operations on named buffers.

    x = embedding of the token                     buffers hold one vector for each row of a pass
    for each layer:   x += attention(norm(x));   x += feed_forward(norm(x))
    logits = head(norm(x))

An architecture is a function from its hyperparameters to such a list, in the words of its paper.
Who runs the list (plan.py in C, reference.py in NumPy) decides about memory, threads and rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Activation = Literal["silu", "gelu"]  # gelu: the tanh form


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """Rotary position embedding: pair i of a head turns by position · base^(−2i/width) / scale."""

    base: float
    width: int  # values of a head that turn; the rest stays
    scale: float = 1.0  # linear stretching of positions
    interleaved: bool = False  # pairs are (2i, 2i+1); else (i, i + width/2)
    factors: str | None = None  # tensor that divides each pair's frequency

    def frequencies(self, factors: Floats | None) -> Floats:
        """How far each pair turns from one position to the next: float64 [width / 2]."""
        pairs = np.arange(self.width // 2, dtype=np.float64)
        found = self.base ** (-2 * pairs / self.width) / self.scale
        return found if factors is None else found / factors


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """An architecture's numbers, as read from a file's metadata and checked."""

    architecture: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    vocabulary: int  # rows of the embedding, padding included
    context: int
    epsilon: float
    rotation: Rotation
    local_rotation: Rotation | None = None  # of layers with a sliding window
    window: int | None = None  # keys a local layer sees, its own included
    period: int = 1  # every period-th layer is global, the others local
    tied: bool = False  # the head is the embedding
    qkv_bias: bool = False
    attention_scale: float = 0.0  # what q·k is multiplied with


@dataclass(frozen=True, kw_only=True)
class Embed:
    """out = scale · row `token` of the table."""

    table: str
    out: str
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Norm:
    """out = x / rms(x) · weight; with `add`, out += that."""

    x: str
    weight: str
    out: str
    add: bool = False


@dataclass(frozen=True, kw_only=True)
class Linear:
    """For each (weight, bias, out): out = weight · x + bias; with `add`, out += that."""

    x: str
    maps: tuple[tuple[str, str | None, str], ...]
    add: bool = False


@dataclass(frozen=True, kw_only=True)
class Attend:
    """Causal attention of one layer: q and k of each head are normed (where there are weights) and
    turned, k and v cached, and out = softmax(scale · q·k) · v over the last `window` positions."""

    layer: int
    q: str
    k: str
    v: str
    out: str
    rotation: Rotation
    scale: float
    window: int | None = None
    q_norm: str | None = None
    k_norm: str | None = None


@dataclass(frozen=True, kw_only=True)
class Gated:
    """out = activation(gate · x) · (up · x), entry by entry."""

    x: str
    gate: str
    up: str
    out: str
    activation: Activation


@dataclass(frozen=True, kw_only=True)
class Tap:
    """What x holds, normed where there is a weight, is handed out: as part `part` of a feature."""

    x: str
    part: int
    weight: str | None = None


@dataclass(frozen=True, kw_only=True)
class Feed:
    """out = what is given from outside for each row."""

    out: str


Operation = Embed | Norm | Linear | Attend | Gated | Tap | Feed
Graph = list[Operation]


def widths(h: Hyperparameters) -> dict[str, int]:
    """Values in each buffer."""
    inner, kv = h.heads * h.head_width, h.kv_heads * h.head_width
    return {
        "x": h.hidden, "h": h.hidden, "q": inner, "k": kv, "v": kv, "a": inner, "o": h.hidden,
        "f": h.feed_forward, "logits": h.vocabulary,
    }  # fmt: skip


def llama(h: Hyperparameters) -> Graph:
    """Llama, Mistral, SmolLM2; with biases Qwen2 (Touvron et al. 2023; Yang et al. 2024)."""
    return [*_body(h, "silu")]


def qwen3(h: Hyperparameters) -> Graph:
    """Llama with a norm of each head's q and k (Yang et al. 2025)."""
    return [*_body(h, "silu", head_norms=True)]


def gemma3(h: Hyperparameters) -> Graph:
    """Gemma 3: scaled embeddings, norms around each part, local layers (Kamath et al. 2025)."""
    return [*_body(h, "gelu", head_norms=True, outer_norms=True, embed_scale=h.hidden**0.5)]


def _body(
    h: Hyperparameters,
    activation: Activation,
    *,
    head_norms: bool = False,
    outer_norms: bool = False,
    embed_scale: float = 1.0,
) -> Iterator[Operation]:
    yield Embed(table="token_embd.weight", out="x", scale=embed_scale)
    for i in range(h.layers):
        at = f"blk.{i}."
        local = h.window is not None and (i + 1) % h.period != 0
        yield Norm(x="x", weight=f"{at}attn_norm.weight", out="h")
        yield Linear(
            x="h",
            maps=tuple(
                (f"{at}attn_{n}.weight", f"{at}attn_{n}.bias" if h.qkv_bias else None, n)
                for n in "qkv"
            ),
        )
        yield Attend(
            layer=i, q="q", k="k", v="v", out="a",
            rotation=h.local_rotation if local and h.local_rotation else h.rotation,
            scale=h.attention_scale,
            window=h.window if local else None,
            q_norm=f"{at}attn_q_norm.weight" if head_norms else None,
            k_norm=f"{at}attn_k_norm.weight" if head_norms else None,
        )  # fmt: skip
        yield from _onto_x("a", f"{at}attn_output.weight", f"{at}post_attention_norm", outer_norms)
        yield Norm(x="x", weight=f"{at}ffn_norm.weight", out="h")
        yield Gated(
            x="h",
            gate=f"{at}ffn_gate.weight",
            up=f"{at}ffn_up.weight",
            out="f",
            activation=activation,
        )
        yield from _onto_x("f", f"{at}ffn_down.weight", f"{at}post_ffw_norm", outer_norms)
    yield Norm(x="x", weight="output_norm.weight", out="h")
    head = "token_embd.weight" if h.tied else "output.weight"
    yield Linear(x="h", maps=((head, None, "logits"),))


def _onto_x(x: str, weight: str, norm: str, normed: bool) -> Iterator[Operation]:
    """x += weight · input, by way of a norm where the architecture has one there."""
    if not normed:
        yield Linear(x=x, maps=((weight, None, "x"),), add=True)
        return
    yield Linear(x=x, maps=((weight, None, "o"),))
    yield Norm(x="o", weight=f"{norm}.weight", out="x", add=True)


def tapped(graph: Graph, layers: Sequence[int]) -> Graph:
    """The same, handing out what stands behind so many layers: see `models/features.py`."""
    found: Graph = []
    behind = 0
    for op in graph:
        match op:
            case Norm(x=x, weight=weight) if weight.endswith(".attn_norm.weight"):
                found += [Tap(x=x, part=i) for i, n in enumerate(layers) if n == behind]
                behind += 1
            case Norm(x=x, weight="output_norm.weight"):
                found += [
                    Tap(x=x, part=i, weight=op.weight) for i, n in enumerate(layers) if n == behind
                ]
        found.append(op)
    return found


def skipping(graph: Graph, layers: Collection[int]) -> Graph:
    """The same without these layers: what comes in is what goes out."""
    found: Graph = []
    at = -1  # the layer that operations belong to; none before the first and behind the last
    for op in graph:
        match op:
            case Norm(weight=weight) if weight.endswith(".attn_norm.weight"):
                at += 1
            case Norm(weight="output_norm.weight"):
                at = -1
        if at not in layers:
            found.append(op)
    return found


ARCHITECTURES: dict[str, Callable[[Hyperparameters], Graph]] = {
    "llama": llama,
    "qwen2": llama,
    "qwen3": qwen3,
    "gemma3": gemma3,
}
"""Architectures by `general.architecture` in a GGUF file."""
