"""What a head computes, in the words of `models/native/graph.py`; one row is one pair.

    e_i = embedding of token i + 1      g_i = the feature of token i, made by `fc` of tapped states
    x_i = g_i + attention([norm(e), norm(g)])    x_i += feed_forward(norm(x_i))
    logits of token i + 2 = lm_head(norm(x_i))   and x_i is the feature of token i + 1, should that
                                                 be a draft (Li et al. 2025, sections 3.1, 3.2)

A matrix that reads both halves is stored as two: what they give is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from forerun.models.features import Table
from forerun.models.gguf import TensorInfo
from forerun.models.heads.checkpoint import Head
from forerun.models.heads.config import Llama3Scaling
from forerun.models.native.graph import (
    Attend,
    Embed,
    Feed,
    Gated,
    Graph,
    Hyperparameters,
    Linear,
    Norm,
    Operation,
    Tap,
)
from forerun.models.native.quantise import BLOCK, q8_0

EMBEDDING = "embed_tokens.weight"
HALVES = ("embedding", "feature")


def graph(head: Head) -> Graph:
    """Of a pass over pairs: their features are fed, what comes out is tapped."""
    return list(_operations(head))


def _operations(head: Head) -> Iterator[Operation]:
    config = head.config
    yield Embed(table=EMBEDDING, out="o")
    yield Feed(out="x")
    for i in range(head.layers):
        at = f"layers.{i}."
        if i == 0:
            yield Norm(x="o", weight=f"{at}input_layernorm.weight", out="h")
            yield _qkv(at, f":{HALVES[0]}", config.bias)
            yield Norm(x="x", weight=f"{at}hidden_norm.weight", out="h")
            yield _qkv(at, f":{HALVES[1]}", False, add=True)
            if config.norm_before_residual:
                yield Norm(x="x", weight=f"{at}hidden_norm.weight", out="x")
        else:
            yield Norm(x="x", weight=f"{at}input_layernorm.weight", out="h")
            yield _qkv(at, "", config.bias)
        normed = config.kind == "qwen3"
        yield Attend(
            layer=i, q="q", k="k", v="v", out="a",
            rotation=config.rotation,
            scale=config.head_width**-0.5,
            q_norm=f"{at}self_attn.q_norm.weight" if normed else None,
            k_norm=f"{at}self_attn.k_norm.weight" if normed else None,
        )  # fmt: skip
        yield Linear(x="a", maps=((f"{at}self_attn.o_proj.weight", None, "x"),), add=True)
        yield Norm(x="x", weight=f"{at}post_attention_layernorm.weight", out="h")
        yield Gated(
            x="h",
            gate=f"{at}mlp.gate_proj.weight",
            up=f"{at}mlp.up_proj.weight",
            out="f",
            activation="silu",
        )
        yield Linear(x="f", maps=((f"{at}mlp.down_proj.weight", None, "x"),), add=True)
    yield Tap(x="x", part=0, weight="norm.weight" if config.norm_output else None)
    yield Norm(x="x", weight="norm.weight", out="h")
    yield Linear(x="h", maps=(("lm_head.weight", None, "logits"),))


def _qkv(at: str, half: str, bias: bool, *, add: bool = False) -> Linear:
    names = [(f"{at}self_attn.{n}_proj", n) for n in "qkv"]
    return Linear(
        x="h",
        maps=tuple((f"{at}.weight{half}", f"{at}.bias" if bias else None, n) for at, n in names),
        add=add,
    )


def hyperparameters(head: Head) -> Hyperparameters:
    config = head.config
    return Hyperparameters(
        architecture="eagle3",
        layers=head.layers,
        hidden=config.hidden,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_width=config.head_width,
        feed_forward=config.feed_forward,
        vocabulary=config.draft_vocabulary,
        context=config.context,
        epsilon=config.epsilon,
        rotation=config.rotation,
        qkv_bias=config.bias,
        attention_scale=config.head_width**-0.5,
    )


class HeadFile:
    """A head's tensors as a runner reads them: as `GGUFFile` gives a model's.

    Matrices have 8 bits a weight where their width allows it, as the targets' have; `exact` leaves
    them as floats.
    """

    def __init__(self, head: Head, embeddings: Table, *, exact: bool = False) -> None:
        self.path: Path = head.path
        self._data: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        config = head.config
        for name in head.tensors:
            if name.endswith("_scale") or name == EMBEDDING:
                continue
            values = head[name]
            if values.ndim == 2 and name.startswith("layers.0.self_attn.") and "o_proj" not in name:
                for half, part in zip(HALVES, np.split(values, 2, axis=1)):
                    self._put(f"{name}:{half}", part, exact)
            else:
                self._put(name, values, exact)
        if EMBEDDING in head.tensors:
            self._put(EMBEDDING, head[EMBEDDING], exact)
        else:
            self._add(EMBEDDING, embeddings.kind, embeddings.shape, embeddings.data)
        if config.llama3 is not None:
            factors = llama3_factors(config.llama3, config.rotation_base, config.head_width)
            self._put("rope_freqs.weight", factors, exact)

    def data(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        found: np.ndarray[Any, np.dtype[np.uint8]] = self._data[name]
        return found

    def _put(self, name: str, values: Any, exact: bool) -> None:
        if values.ndim == 2 and values.shape[1] % BLOCK == 0 and not exact:
            self._add(name, "Q8_0", values.shape, q8_0(values))
        else:
            floats = np.ascontiguousarray(values, dtype=np.float32)
            self._add(name, "F32", values.shape, floats.reshape(-1).view(np.uint8))

    def _add(self, name: str, kind: str, shape: tuple[int, ...], data: Any) -> None:
        self._data[name] = data
        self.tensors[name] = TensorInfo(
            name=name, shape=shape, type=kind, offset=0, size=data.nbytes
        )


def llama3_factors(scaling: Llama3Scaling, base: float, width: int) -> Any:
    """What each pair's frequency is divided by: 1 for wavelengths within context / high, `factor`
    beyond context / low, and between them as the share that is left unscaled falls."""
    frequencies = base ** (-np.arange(0, width, 2) / width)
    turns = scaling.context * frequencies / (2 * np.pi)  # in the context trained on
    unscaled = np.clip((turns - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return 1 / (unscaled + (1 - unscaled) / scaling.factor)
