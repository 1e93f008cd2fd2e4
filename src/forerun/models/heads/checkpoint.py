"""A head on disk: a folder with `config.json` and `model.safetensors`, as `speculators` has it.

    write_head("head", config, {"fc.weight": …, "layers.0.self_attn.q_proj.weight": …, …})
    head = read_head("head")
    head.config.hidden, head["fc.weight"], head.ids      # ids [D]: draft id -> the target's

    fc.weight                        [h, taps · h]      of the tapped states one feature
    layers.0.{self_attn,mlp,…}       a Llama layer, whose q, k and v read [embedding, feature]: 2h
    norm.weight, lm_head.weight      [h], [D, h]
    d2t, t2d                         [D] what to add to a draft id; [V] which ids can be drafted
    embed_tokens.weight              [V, h], where it is not the target's own

Every tensor is checked against the configuration before it is used. A matrix may be stored in 8
bits, as `compressed-tensors` does: int8, and beside it `…weight_scale` [out, groups]. Then
`config.json` says so in its words, for vLLM.

D is the draft's vocabulary, V the target's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import safetensors
import safetensors.numpy

from forerun.errors import ModelFileError
from forerun.models.heads.config import HeadConfig
from forerun.models.native.dequantise import dequantise

Array = np.ndarray[Any, np.dtype[Any]]
Floats = np.ndarray[Any, np.dtype[np.float32]]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SCALE = "_scale"  # what is added to a matrix's name

_CODED = {"num_bits": 8, "type": "int", "symmetric": True}
QUANTISATION: Mapping[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "targets": ["Linear", "re:.*lm_head"],
            "weights": {**_CODED, "strategy": "channel"},
            "input_activations": {**_CODED, "strategy": "token", "dynamic": True},
        }
    },
    "ignore": [],
}
"""Of a head in 8 bits: each row of a matrix has a scale. What it is multiplied with is rounded to 8
bits as well while it runs; vLLM knows no other way to run weights that are stored so."""


class Tensors(dict[str, Array]):
    """As they are stored, by name."""

    def floats(self, name: str) -> Floats:
        stored = self[name]
        if stored.dtype != np.int8:
            return stored.astype(np.float32, copy=False)
        scales = self[name + SCALE].astype(np.float32)
        groups = stored.reshape(len(stored), scales.shape[1], -1)
        found: Floats = (groups * scales[..., None]).reshape(stored.shape)
        return found


@dataclass(frozen=True, kw_only=True)
class Head:
    """A checkpoint in memory. `head[name]` is a tensor as float32."""

    path: Path
    config: HeadConfig
    layers: int
    ids: Array  # [D] int64, rising
    tensors: Mapping[str, Array]

    def __getitem__(self, name: str) -> Floats:
        return Tensors(self.tensors).floats(name)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors


def shapes(config: HeadConfig, layers: int = 1, taps: int = 3) -> dict[str, tuple[int, ...]]:
    """Of each tensor that a head of this configuration has, but for ids and embeddings."""
    h, inner = config.hidden, config.heads * config.head_width
    kv, f = config.kv_heads * config.head_width, config.feed_forward
    found: dict[str, tuple[int, ...]] = {
        "fc.weight": (h, taps * h),
        "norm.weight": (h,),
        "lm_head.weight": (config.draft_vocabulary, h),
    }
    if config.norm_before_fc:
        found["input_norm.weight"] = (taps * h,)
    if config.fc_norm:
        found |= {f"fc_norm.{i}.weight": (h,) for i in range(taps)}
    for i in range(layers):
        at, read = f"layers.{i}.", 2 * h if i == 0 else h
        if i == 0:
            found[f"{at}hidden_norm.weight"] = (h,)
        for name, rows in (("q", inner), ("k", kv), ("v", kv)):
            found[f"{at}self_attn.{name}_proj.weight"] = (rows, read)
            if config.bias:
                found[f"{at}self_attn.{name}_proj.bias"] = (rows,)
        if config.kind == "qwen3":
            found[f"{at}self_attn.q_norm.weight"] = (config.head_width,)
            found[f"{at}self_attn.k_norm.weight"] = (config.head_width,)
        found |= {
            f"{at}self_attn.o_proj.weight": (h, inner),
            f"{at}mlp.gate_proj.weight": (f, h),
            f"{at}mlp.up_proj.weight": (f, h),
            f"{at}mlp.down_proj.weight": (h, f),
            f"{at}input_layernorm.weight": (h,),
            f"{at}post_attention_layernorm.weight": (h,),
        }
    return found


def read_head(folder: str | os.PathLike[str]) -> Head:
    """ModelFileError where it cannot be one, naming file and tensor; CapabilityError where it asks
    for what is not computed here."""
    folder = Path(folder)
    config = HeadConfig.parse(read_json(folder / CONFIG), str(folder / CONFIG))
    where = folder / WEIGHTS
    tensors = read_tensors(where)
    layers = 1 + max((_layer(name) for name in tensors), default=0)
    ids = ids_of(where, config, tensors)
    taps = 3 if config.taps is None else len(config.taps)
    expected = shapes(config, layers, taps)
    if "embed_tokens.weight" in tensors:
        expected["embed_tokens.weight"] = (config.vocabulary, config.hidden)
    check_tensors(where, tensors, expected)
    return Head(path=folder, config=config, layers=layers, ids=ids, tensors=tensors)


def write_head(
    folder: str | os.PathLike[str],
    config: HeadConfig,
    tensors: Mapping[str, Array],
    *,
    bits: int = 16,
) -> None:
    """Write a head, each file at once or not at all. `tensors` are floats, `d2t` and `t2d` apart.

    They are stored in float16; matrices with `bits` 8 as int8, of which each row has a scale.
    """
    said = config.as_json()
    if bits == 8:
        said["quantization_config"] = QUANTISATION
    write_files(Path(folder), said, tensors, bits=bits)


def write_files(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Array], *, bits: int
) -> None:
    """See `write_head`."""
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Array] = {}
    for name, values in tensors.items():
        if name == "d2t":
            stored[name] = values.astype(np.int64)
        elif name == "t2d":
            stored[name] = values.astype(np.bool_)
        elif bits == 8 and values.ndim == 2:
            stored[name], stored[name + SCALE] = _codes(values.astype(np.float32))
        else:
            stored[name] = values.astype(np.float16)
    whole = {name: np.ascontiguousarray(values) for name, values in stored.items()}
    _replace(folder / WEIGHTS, safetensors.numpy.save(whole, {"format": "pt"}))
    _replace(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def offsets(ids: Array, vocabulary: int) -> dict[str, Array]:
    """`d2t` and `t2d` of the target's ids [D], rising, that can be drafted."""
    t2d = np.zeros(vocabulary, dtype=np.bool_)
    t2d[ids] = True
    return {"d2t": ids.astype(np.int64) - np.arange(len(ids)), "t2d": t2d}


# ---------------------------------------------------------------------------- reading


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError as error:
        run = (path.parent / "head" / CONFIG).is_file()
        raise ModelFileError(
            f"{path.parent}: no {CONFIG} there: not a head's folder"
            + ("; the run's head is in its folder head" if run else "")
        ) from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelFileError(f"{path}: no JSON: {error}") from error


_TYPES: Mapping[str, tuple[str, Any]] = {
    "F32": ("F32", np.float32), "F16": ("F16", np.float16), "BF16": ("BF16", np.uint16),
    "I8": ("", np.int8), "I64": ("", np.int64), "I32": ("", np.int32), "BOOL": ("", np.bool_),
}  # fmt: skip


def read_tensors(path: Path) -> dict[str, Array]:
    try:
        entries: Any = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"{path}: not a safetensors file, or cut short: {error}") from error
    found: dict[str, Array] = {}
    for name, entry in entries:
        if entry["dtype"] not in _TYPES:
            raise ModelFileError(f"{path}: tensor {name!r} is of type {entry['dtype']}")
        kind, dtype = _TYPES[entry["dtype"]]
        raw = np.frombuffer(entry["data"], dtype=np.uint8)
        values: Array = dequantise(raw, kind) if kind == "BF16" else raw.view(dtype)
        found[name] = values.reshape(entry["shape"])
    return found


def _layer(name: str) -> int:
    parts = name.split(".")
    return int(parts[1]) if parts[0] == "layers" and parts[1].isdigit() else 0


class Vocabularies(Protocol):
    """What a head's configuration says of ids."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def draft_vocabulary(self) -> int: ...


def ids_of(where: Path, config: Vocabularies, tensors: dict[str, Array]) -> Array:
    """The target's ids that can be drafted, by draft id; `d2t` and `t2d` are taken out."""
    d2t, t2d = tensors.pop("d2t", None), tensors.pop("t2d", None)
    if d2t is None:
        if config.draft_vocabulary != config.vocabulary:
            raise ModelFileError(f"{where}: tensor 'd2t' is missing")
        return np.arange(config.vocabulary, dtype=np.int32)
    if d2t.shape != (config.draft_vocabulary,) or d2t.dtype.kind != "i":
        raise ModelFileError(
            f"{where}: 'd2t' is {d2t.dtype} {list(d2t.shape)}, not whole numbers"
            f" [{config.draft_vocabulary}]"
        )
    ids: Array = d2t.astype(np.int64) + np.arange(len(d2t))
    if ids.min() < 0 or ids.max() >= config.vocabulary or len(np.unique(ids)) < len(ids):
        raise ModelFileError(f"{where}: 'd2t' leads to no ids, or to one twice")
    if t2d is not None:
        known = t2d.shape == (config.vocabulary,) and set(np.flatnonzero(t2d)) == set(ids.tolist())
        if not known:
            raise ModelFileError(f"{where}: 't2d' and 'd2t' do not name the same ids")
    return ids.astype(np.int32)


def check_tensors(
    where: Path, tensors: Mapping[str, Array], expected: Mapping[str, tuple[int, ...]]
) -> None:
    """ModelFileError unless they are just the expected ones."""
    for name, shape in expected.items():
        if name not in tensors:
            raise ModelFileError(f"{where}: tensor {name!r} is missing")
        _check(where, name, tensors, shape)
    scales = {name + SCALE for name in expected if tensors[name].dtype == np.int8}
    if unknown := sorted(tensors.keys() - expected.keys() - scales):
        raise ModelFileError(f"{where}: tensor {unknown[0]!r} is not one of such a head's")


def _check(where: Path, name: str, tensors: Mapping[str, Array], shape: tuple[int, ...]) -> None:
    stored = tensors[name]
    if stored.shape != shape:
        raise ModelFileError(
            f"{where}: tensor {name!r} is {list(stored.shape)}, where {list(shape)} is expected"
        )
    if stored.dtype == np.int8:
        scales = tensors.get(name + SCALE)
        fits = scales is not None and scales.ndim == 2 and len(scales) == len(stored)
        if not fits or stored.shape[1] % scales.shape[1]:  # type: ignore[union-attr]
            raise ModelFileError(f"{where}: tensor {name!r} has no scales that fit it")
    elif stored.dtype.kind != "f":
        raise ModelFileError(f"{where}: tensor {name!r} is {stored.dtype}, not of floats")
    if stored.dtype.kind == "f" and not np.isfinite(stored).all():
        raise ModelFileError(f"{where}: tensor {name!r} holds what is no number")


# ---------------------------------------------------------------------------- writing


def _codes(values: Floats) -> tuple[Array, Array]:
    """int8 [out, in] and float16 scales [out, 1], of which each row's largest value has 127."""
    scales = (np.abs(values).max(axis=1, keepdims=True) / 127).astype(np.float16)
    safe = np.where(scales > 0, scales, np.float16(1)).astype(np.float32)
    return np.clip(np.rint(values / safe), -127, 127).astype(np.int8), scales


def _replace(path: Path, data: bytes) -> None:
    fresh = path.with_name(path.name + ".part")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
