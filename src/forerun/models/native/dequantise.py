"""The values a GGUF tensor's bytes mean, as float32, in NumPy.

Each type stores blocks of 32 or 256 codes with their scales. A block's values are

    Q8_0                d · code                    32 signed bytes
    Q4_0, Q5_0          d · (code − 8), (code − 16)
    Q4_1, Q5_1          d · code + m
    Q4_K, Q5_K          (d · scale) · code − (dmin · minimum)     scale, minimum: 6 bits per 32
    Q6_K                (d · scale) · (code − 32)                 scale: a signed byte per 16

with d, m, dmin in fp16, each operation rounded to float32. Fourths of a byte's bits hold codes that
lie 16, 32 or 64 apart, never neighbours; the functions below say which.

What this module does not know: files, shapes, what a tensor is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Blocks = np.ndarray[Any, Any]  # [N] of one of the records below

BLOCKS: Mapping[str, np.dtype[Any]] = {
    "Q8_0": np.dtype([("d", "<f2"), ("codes", "i1", 32)]),
    "Q4_0": np.dtype([("d", "<f2"), ("low", "u1", 16)]),
    "Q4_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("low", "u1", 16)]),
    "Q5_0": np.dtype([("d", "<f2"), ("high", "u1", 4), ("low", "u1", 16)]),
    "Q5_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("high", "u1", 4), ("low", "u1", 16)]),
    "Q4_K": np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("low", "u1", 128)]),
    "Q5_K": np.dtype(
        [
            ("d", "<f2"),
            ("dmin", "<f2"),
            ("scales", "u1", 12),
            ("high", "u1", 32),
            ("low", "u1", 128),
        ]
    ),
    "Q6_K": np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("d", "<f2")]),
}
"""What lies in a block of each type: low bits of the codes, high bits, scales."""

_CHUNK = 1 << 20  # bytes turned at a time: what stands between stays small


def dequantise(raw: Bytes, kind: str) -> Floats:
    """Values of `raw`, whose last axis holds whole blocks: uint8 [..., bytes] -> [..., values].

    `kind` is one of TYPES. Scales that are infinite or NaN give such values, without a warning.
    """
    size, width = _layout(kind)
    flat = np.ascontiguousarray(raw).reshape(-1)
    values = np.empty(flat.size // size * width, dtype=np.float32)
    step = max(_CHUNK // size, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, flat.size // size, step):
            part = flat[first * size : (first + step) * size]
            values[first * width : (first + step) * width] = _values(part, kind)
    return values.reshape(*raw.shape[:-1], raw.shape[-1] // size * width)


def _layout(kind: str) -> tuple[int, int]:
    """Bytes and values of a block."""
    if kind in _PLAIN:
        return _PLAIN[kind], 1
    return BLOCKS[kind].itemsize, 256 if kind.endswith("_K") else 32


def _values(raw: Bytes, kind: str) -> Floats:
    if kind == "F32":
        return raw.view("<f4")
    if kind == "F16":
        return raw.view("<f2").astype(np.float32)
    if kind == "BF16":  # the upper half of a float32
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return _FORMULAS[kind](raw.view(BLOCKS[kind])).reshape(-1)


def _eighths(b: Blocks) -> Floats:
    return _column(b["d"]) * b["codes"].astype(np.float32)


def _centred(b: Blocks) -> Floats:
    codes, middle = _codes_of_32(b)
    return _column(b["d"]) * (codes - np.float32(middle))


def _shifted(b: Blocks) -> Floats:
    codes, _ = _codes_of_32(b)
    return _column(b["d"]) * codes + _column(b["m"])


def _codes_of_32(b: Blocks) -> tuple[Floats, int]:
    """Codes [N, 32], and the middle one. Byte i holds the low bits of codes i and i + 16."""
    low = np.concatenate([b["low"] & 15, b["low"] >> 4], axis=1)
    if "high" not in (b.dtype.names or ()):
        return low.astype(np.float32), 8
    fifth = np.unpackbits(np.ascontiguousarray(b["high"]), axis=1, bitorder="little")
    return (low | fifth << 4).astype(np.float32), 16


def _k4(b: Blocks) -> Floats:
    """Byte i of each 32 holds codes of two groups of 32: the lower bits' comes first."""
    return _with_minimum(b, _halves(b["low"]))


def _k5(b: Blocks) -> Floats:
    """The fifth bit of group g, value i is bit g of byte i of `high`."""
    fifth: Bytes = b["high"][:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
    return _with_minimum(b, _halves(b["low"]) | fifth << np.uint8(4))


def _halves(low: Bytes) -> Bytes:
    """Nibbles as groups: [N, 128] -> [N, 8, 32]."""
    pairs = low.reshape(-1, 4, 32)
    return np.stack([pairs & 15, pairs >> 4], axis=2).reshape(-1, 8, 32)


def _with_minimum(b: Blocks, codes_N8I: Bytes) -> Floats:
    scales, minima = k_scales(b["scales"])
    d = _column(b["d"]) * scales.astype(np.float32)
    least = _column(b["dmin"]) * minima.astype(np.float32)
    return d[:, :, None] * codes_N8I.astype(np.float32) - least[:, :, None]


def k_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """The 6-bit scales and minima of 8 groups, [N, 8] each, from their 12 bytes [N, 12].

    Groups 0 to 3 have theirs whole in the low 6 bits of bytes 0–3 and 4–7. Groups 4 to 7 have their
    low 4 bits in bytes 8–11 and their high 2 on top of those.
    """
    a, b, c = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=1)
    minima = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=1)
    return scales, minima


def _k6(b: Blocks) -> Floats:
    """Of each 128 codes, byte i < 64 of `low` holds nibbles of codes i and i + 64, and byte i < 32
    of `high` two bits each of codes i, i + 32, i + 64 and i + 96."""
    low = b["low"].reshape(-1, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    high = b["high"].reshape(-1, 2, 1, 32) >> np.array([[0], [2], [4], [6]], dtype=np.uint8) & 3
    codes = (low | high << 4).reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    scales: Floats = _column(b["d"]) * b["scales"].astype(np.float32)
    values: Floats = scales[:, :, None] * codes
    return values


def _column(halves: np.ndarray[Any, Any]) -> Floats:
    return halves.astype(np.float32)[:, None]


_PLAIN = {"F32": 4, "F16": 2, "BF16": 2}
_FORMULAS: Mapping[str, Callable[[Blocks], Floats]] = {
    "Q8_0": _eighths,
    "Q4_0": _centred,
    "Q5_0": _centred,
    "Q4_1": _shifted,
    "Q5_1": _shifted,
    "Q4_K": _k4,
    "Q5_K": _k5,
    "Q6_K": _k6,
}
TYPES: tuple[str, ...] = (*_PLAIN, *_FORMULAS)
"""The tensor types whose values are known here."""
