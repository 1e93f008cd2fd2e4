"""The C library's structures and functions, as csrc/forerun.h declares them.

Everything that Python and C share is written down here once: mirrors of the structures, argument
types, and small owners that free what they allocated. Which instruction paths there are, `paths`
says; all of them give the same bits.

What this module does not know: graphs, slots, files.
"""

from __future__ import annotations

import threading
import weakref
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_void_p,
)
from functools import cache
from typing import Any, ClassVar

import numpy as np

from forerun import clib
from forerun.errors import CapabilityError, OptionError

LANES, GROUP, PAGE = 16, 32, 64
TYPES = (
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K",
)  # fmt: skip
"""Tensor types by their number in the library."""

FLOAT_TYPES = frozenset(TYPES[:3])

EMBED, NORM, LINEAR, GATED, ROTATE, ATTEND, TAP, FEED = range(8)
ADD, QUANTISE, CHOSEN, INTERLEAVED, GELU, FLOATS = (1 << i for i in range(6))


class CMatrix(Structure):
    _fields_ = [
        *[(name, c_int32) for name in ("type", "rows", "width", "tiles")],
        *[(name, c_int64) for name in ("tile_bytes", "scale_bytes")],
        ("data", c_void_p),
        ("bias", c_void_p),
    ]


class COperation(Structure):
    _fields_ = [
        ("kind", c_int32),
        ("flags", c_int32),
        ("input", c_int32),
        ("out", c_int32 * 3),
        *[(name, c_int32) for name in ("maps", "width", "layer", "heads", "kv_heads")],
        *[(name, c_int32) for name in ("head_width", "window", "turned")],
        ("epsilon", c_float),
        ("scale", c_float),
        ("matrix", c_void_p * 3),
        *[(name, c_void_p) for name in ("weight", "k_weight", "table")],
    ]


class CLaw(Structure):
    _fields_ = [
        ("temperature", c_float),
        ("min_p", c_float),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("ids", c_void_p),
        ("p", c_void_p),
        ("found", c_int64),
    ]


class CPass(Structure):
    _fields_ = [
        *[(name, c_int32) for name in ("rows", "wanted")],
        *[(name, c_void_p) for name in ("tokens", "positions", "slot", "cells", "shared")],
        *[(name, c_void_p) for name in ("path_start", "path", "wanted_rows", "pages", "logits")],
        ("logits_stride", c_int64),
        ("size", c_int32),
        ("choices", c_void_p),
        ("laws", c_void_p),
        ("features", c_void_p),
        ("features_stride", c_int64),
        ("feed", c_void_p),
        ("feed_stride", c_int64),
    ]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "fr_pool_new": (c_void_p, [c_int]),
    "fr_pool_free": (None, [c_void_p]),
    "fr_model_new": (
        c_void_p,
        [POINTER(COperation), c_int, c_void_p, c_int, c_int, c_int, c_int, c_int],
    ),
    "fr_model_free": (None, [c_void_p]),
    "fr_page_bytes": (c_int64, [c_int, c_int, c_int]),
    "fr_run": (c_int, [c_void_p, c_void_p, c_char_p, POINTER(CPass)]),
    "fr_move": (None, [c_void_p, c_int, c_int, c_int, c_int, c_int]),
    "fr_cells": (None, [c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p, c_int, c_int]),
    "fr_alloc": (c_void_p, [c_int64]),
    "fr_free": (None, [c_void_p, c_int64]),
    "fr_layout": (c_int64, [c_int, c_int, c_int, POINTER(c_int64), POINTER(c_int64)]),
    "fr_pack": (None, [c_void_p, c_int, c_int, c_int, c_void_p, c_void_p]),
    "fr_channel": (None, [POINTER(CMatrix), c_int, c_void_p]),
    "fr_paths": (c_char_p, []),
    "fr_matmul": (c_int, [c_void_p, c_char_p, POINTER(CMatrix), c_void_p, c_int, c_void_p]),
}


def library() -> Any:
    """The library with its functions declared. CapabilityError where it is missing."""
    found = clib.library()
    if found is None:
        raise CapabilityError(str(clib.why_missing()))
    return _declared(found)


@cache
def _declared(found: Any) -> Any:
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def paths() -> tuple[str, ...]:
    """Instruction paths that this build has and this machine can run, the best first."""
    return tuple(library().fr_paths().decode().split())


def checked_path(name: str | None) -> str:
    """`name`, or the best path. OptionError for one that is not here."""
    found = paths()
    if name is None:
        return found[0]
    if name not in found:
        raise OptionError(f"instruction path {name!r} is not here; these are: {', '.join(found)}")
    return name


class Memory:
    """Zeroed memory of the library, freed with its owner. MemoryError where there is none."""

    def __init__(self, size: int) -> None:
        lib = library()
        self.size = size
        self.address: int | None = lib.fr_alloc(size)
        if not self.address:
            raise MemoryError(f"no memory for {size:,} bytes")
        weakref.finalize(self, lib.fr_free, self.address, size)


class Arena:
    """Memory for many matrices: in large pieces, since huge pages are what keeps reading quick."""

    PIECE = 64 << 20

    def __init__(self) -> None:
        self._pieces: list[Memory] = []
        self._left = 0

    def take(self, size: int) -> int:
        """The address of `size` bytes, aligned; they live as long as the arena."""
        size = -(-size // 64) * 64
        if size > self._left:
            self._pieces.append(Memory(max(size, self.PIECE)))
            self._left = self._pieces[-1].size
        piece = self._pieces[-1]
        address = (piece.address or 0) + piece.size - self._left
        self._left -= size
        return address


class Pool:
    """Threads that share calls; one pool for each number of threads, used by all models."""

    _pools: ClassVar[weakref.WeakValueDictionary[int, Pool]] = weakref.WeakValueDictionary()
    _lock = threading.Lock()

    def __init__(self, threads: int) -> None:
        lib = library()
        self.threads = threads
        self.address: int | None = lib.fr_pool_new(threads)
        if not self.address:
            raise MemoryError(f"{threads} threads cannot be started")
        # Threads end with the process; freeing a pool at exit would join them for nothing.
        weakref.finalize(self, lib.fr_pool_free, self.address).atexit = False

    @classmethod
    def of(cls, threads: int) -> Pool:
        with cls._lock:
            pool = cls._pools.get(threads)
            if pool is None:
                pool = cls._pools[threads] = cls(threads)
            return pool


class Matrix:
    """A tensor's packed copy: `rows` outputs of `width` inputs, with or without a bias.

    It lies at `address`, in memory that `owner` keeps.
    """

    def __init__(self, kind: str, rows: int, width: int, address: int, owner: Any) -> None:
        number = TYPES.index(kind)
        tile_bytes, scale_bytes = c_int64(), c_int64()
        self.size = int(library().fr_layout(number, rows, width, tile_bytes, scale_bytes))
        self.kind, self.rows, self.width = kind, rows, width
        self._owner = owner
        self._bias: Any = None
        self.c = CMatrix(number, rows, width, -(-rows // LANES), tile_bytes, scale_bytes, address)

    @classmethod
    def packed(
        cls, kind: str, rows: int, width: int, blocks: Any, pool: Pool, arena: Arena
    ) -> Matrix:
        """Of a tensor's `blocks`, as a file has them; CapabilityError for what cannot be packed."""
        lib, number = library(), TYPES.index(kind)
        size = int(lib.fr_layout(number, rows, width, c_int64(), c_int64()))
        if size == 0:
            raise CapabilityError(f"a {kind} matrix of {rows} x {width} values cannot be packed")
        address = arena.take(size)
        blocks = np.ascontiguousarray(blocks)
        lib.fr_pack(pool.address, number, rows, width, blocks.ctypes.data, address)
        return cls(kind, rows, width, address, arena)

    def add_bias(self, bias: Any) -> None:
        """float32 [rows], added to every product."""
        self._bias = np.zeros(self.c.tiles * LANES, dtype=np.float32)
        self._bias[: self.rows] = bias
        self.c.bias = self._bias.ctypes.data

    def row(self, i: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Row i as floats: what the file means."""
        out = np.empty(self.width, dtype=np.float32)
        library().fr_channel(self.c, i, out.ctypes.data)
        return out

    def times(self, x: Any, pool: Pool, path: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        """[rows of x, rows]: the product as a pass computes it, on one instruction path."""
        x = np.ascontiguousarray(x, dtype=np.float32)
        out = np.empty((len(x), self.c.tiles * LANES), dtype=np.float32)
        checked_path(path)
        failed = library().fr_matmul(
            pool.address, path.encode(), self.c, x.ctypes.data, len(x), out.ctypes.data
        )
        if failed:
            raise MemoryError("no memory for the product")
        return out[:, : self.rows]
