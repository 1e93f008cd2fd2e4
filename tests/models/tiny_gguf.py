"""Tiny random GGUF files of each architecture the native backend runs, of any tensor types.

    path = write(folder / "a.gguf", "qwen3", types=Q4_K_M, hidden=256, feed_forward=256)

Quantised tensors are random codes with random scales, so every code occurs. Weights are several
times larger than at initialisation, so that attention matters: a wrong mask or position then moves
logits by far more than rounding. A default file takes some 100 KB and a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from forerun.models.native.dequantise import BLOCKS

# Types by part of a tensor's name, the first that fits: llama.cpp's mix of that name.
Q4_K_M = {"attn_v": "Q6_K", "ffn_down": "Q6_K", "output.weight": "Q6_K", "": "Q4_K"}
# Of 32s, where rows are no multiples of 256: what llama.cpp falls back to.
Q4_K_M_NARROW = {"attn_v": "Q8_0", "ffn_down": "Q5_1", "token_embd": "Q8_0", "": "Q5_0"}

# Mean and spread of a code with its sub-scale, for scales that make weights of a wanted size.
_CODES = {
    "Q8_0": (0, 74), "Q4_0": (0, 4.6), "Q4_1": (7.5, 4.6), "Q5_0": (0, 9.2), "Q5_1": (15.5, 9.2),
    "Q4_K": (236, 230), "Q5_K": (488, 470), "Q6_K": (0, 1365),
}  # fmt: skip
_MEAN_MINIMUM = 31.5

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write(
    path: Path,
    architecture: str = "llama",
    *,
    seed: int = 0,
    vocabulary: int = 23,
    hidden: int = 64,
    layers: int = 3,
    heads: int = 4,
    kv_heads: int = 2,
    head_width: int | None = None,
    feed_forward: int = 96,
    context: int = 128,
    types: str | Mapping[str, str] = "F32",
    tied: bool = True,
    bias: bool | None = None,
    window: int | None = None,
    period: int | None = None,
    size: float = 2.0,
    tokenizer: bool = False,
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
) -> Path:
    """Write a file to `path`, and return that.

    types      of matrices: one, or by part of the tensor's name
    bias       of q, k and v: as usual in the architecture
    window     of local layers (Gemma 3 has one unless it is 0), and every how many are global
    size       how large weights are, 1 being what keeps a vector's length
    tokenizer  a byte-level vocabulary of at least 5: <bos>, <eos>, a, b, ab, c, d, e …
    metadata   entries below the architecture's name to add, replace, or (None) leave out; one with
               a dot at its beginning is taken whole
    tensors    shapes or float arrays to add or replace by name; (None) to leave out
    """
    dice = np.random.default_rng(seed)
    plain = architecture in ("llama", "qwen2")
    wide = head_width or (hidden // heads if plain else 32 if hidden < 256 else 64)
    if window is None and architecture == "gemma3":
        window = 5
    numbers: dict[str, Any] = {
        "block_count": layers,
        "context_length": context,
        "embedding_length": hidden,
        "feed_forward_length": feed_forward,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 500.0,  # turns that differ within short texts
    }
    if wide * heads != hidden or not plain:
        numbers |= {"attention.key_length": wide, "attention.value_length": wide}
    if window:
        numbers["attention.sliding_window"] = window
    if period is not None:
        numbers["attention.sliding_window_pattern"] = period
    shapes: dict[str, Any] = _shapes(
        architecture, vocabulary, hidden, layers, heads, kv_heads, wide, feed_forward
    )
    if bias is False or (bias is None and architecture != "qwen2"):
        shapes = {name: shape for name, shape in shapes.items() if not name.endswith(".bias")}
    if not tied:
        shapes["output.weight"] = (vocabulary, hidden)
    whole = {f".{key}": value for key, value in _tokenizer(vocabulary).items()} if tokenizer else {}
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (numbers | whole | dict(metadata or {})).items():
        if value is not None:
            _add(writer, key[1:] if key.startswith(".") else f"{architecture}.{key}", value)
    for name, shape in (shapes | dict(tensors or {})).items():
        if isinstance(shape, np.ndarray):
            writer.add_tensor(name, shape)
        elif shape is not None:
            kind = _type(types, name) if len(shape) > 1 else "F32"
            # Gemma 3 scales embeddings up: made small, they do not drown the layers
            small = architecture == "gemma3" and name in ("token_embd.weight", "output.weight")
            raw = _random(dice, name, shape, kind, size / hidden**0.5 if small else size)
            if name == "output_norm.weight" and architecture == "gemma3":
                raw *= hidden**0.5
            writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes(
    architecture: str, vocabulary: int, hidden: int, layers: int, heads: int, kv_heads: int,
    wide: int, feed_forward: int,
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    inner, kv = heads * wide, kv_heads * wide
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary, hidden),
        "output_norm.weight": (hidden,),
    }
    for i in range(layers):
        block: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (hidden,),
            "attn_q.weight": (inner, hidden),
            "attn_k.weight": (kv, hidden),
            "attn_v.weight": (kv, hidden),
            "attn_q.bias": (inner,),
            "attn_k.bias": (kv,),
            "attn_v.bias": (kv,),
            "attn_output.weight": (hidden, inner),
            "ffn_norm.weight": (hidden,),
            "ffn_gate.weight": (feed_forward, hidden),
            "ffn_up.weight": (feed_forward, hidden),
            "ffn_down.weight": (hidden, feed_forward),
        }
        if architecture in ("qwen3", "gemma3"):
            block |= {"attn_q_norm.weight": (wide,), "attn_k_norm.weight": (wide,)}
        if architecture == "gemma3":
            block |= {"post_attention_norm.weight": (hidden,), "post_ffw_norm.weight": (hidden,)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    return shapes


def _type(types: str | Mapping[str, str], name: str) -> str:
    if isinstance(types, str):
        return types
    return next(kind for part, kind in types.items() if part in name)


def _random(
    dice: np.random.Generator, name: str, shape: Sequence[int], kind: str, size: float
) -> np.ndarray:
    """Random values of that type: floats, or bytes [rows, bytes]."""
    if len(shape) == 1:
        middle = 1.0 if "norm" in name else 0.0
        return (middle + 0.3 * dice.standard_normal(shape)).astype(np.float32)
    spread = size / shape[-1] ** 0.5
    if kind not in BLOCKS:
        values = (spread * dice.standard_normal(shape)).astype(np.float32)
        raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])
        return np.asarray(raw)
    block = BLOCKS[kind]
    values_per_block = 256 if kind.endswith("_K") else 32
    count = int(np.prod(shape)) // values_per_block
    blocks = dice.integers(0, 256, count * block.itemsize, dtype=np.uint8).view(block)
    mean, deviation = _CODES[kind]
    blocks["d"] = spread / deviation * dice.uniform(0.5, 1.5, count) * dice.choice([-1, 1], count)
    if "m" in (block.names or ()):
        blocks["m"] = -mean * blocks["d"]
    if "dmin" in (block.names or ()):
        blocks["dmin"] = mean / _MEAN_MINIMUM * blocks["d"]
    return blocks.view(np.uint8).reshape(shape[0], -1)


def _tokenizer(vocabulary: int) -> dict[str, Any]:
    pairs = [a + b for a in LETTERS for b in LETTERS]
    tokens = ["<bos>", "<eos>", "a", "b", "ab", *LETTERS[2:], *pairs[:1], *pairs[2:]][:vocabulary]
    merges = [f"{token[0]} {token[1]}" for token in tokens[2:] if len(token) == 2]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_bos_token": False,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)
