"""Packing keeps what a file's bytes mean, bit for bit, in as much memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from forerun import clib
from forerun.errors import CapabilityError
from forerun.models.native import kernels
from forerun.models.native.dequantise import BLOCKS, dequantise
from forerun.models.native.kernels import TYPES, Arena, Matrix, Pool

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")

FLOATS = {"F32": 4, "F16": 2, "BF16": 2}
HALVES = (  # every kind of half float: zeros, subnormal, least, ordinary, largest, infinite, NaN
    0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xB555, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00,
)  # fmt: skip


def layout(kind):
    """Bytes and values of a block."""
    if kind in FLOATS:
        return FLOATS[kind], 1
    return BLOCKS[kind].itemsize, 256 if kind.endswith("_K") else 32


def blocks(kind, rows, width, seed=0):
    size, values = layout(kind)
    dice = np.random.default_rng(seed)
    return dice.integers(0, 256, (rows, width // values * size), dtype=np.uint8)


def packed(kind, raw, width, threads=1):
    return Matrix.packed(kind, len(raw), width, raw, Pool.of(threads), Arena())


def same(a, b):
    """The same bits, but that any NaN is as good as any other."""
    bad = np.isnan(b)
    np.testing.assert_array_equal(np.isnan(a), bad)
    np.testing.assert_array_equal(a[~bad].view(np.int32), b[~bad].view(np.int32))


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("kind", TYPES)
def test_rows_are_the_files_values(kind, rows):
    """Of random bytes, so with every code, and with scales of any size."""
    for width in (256, 768):
        raw = blocks(kind, rows, width, seed=rows)
        for threads in (1, 3):
            matrix = packed(kind, raw, width, threads)
            same(np.stack([matrix.row(i) for i in range(rows)]), dequantise(raw, kind))


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in FLOATS])
def test_extreme_scales(kind):
    """Signed zeros are no exception: −0 · code stays what NumPy says."""
    raw = blocks(kind, len(HALVES), 256)
    found = raw.view(BLOCKS[kind])
    for name in ("d", "m", "dmin"):
        if name in (BLOCKS[kind].names or ()):
            halves = np.array(HALVES if name == "d" else HALVES[::-1], dtype="<u2")
            found[name] = halves.view("<f2")[:, None]
    matrix = packed(kind, raw, 256)
    ours = np.stack([matrix.row(i) for i in range(len(raw))])
    theirs = dequantise(raw, kind)
    same(ours, theirs)
    assert np.isnan(theirs).any()
    assert np.isfinite(theirs).any()


@pytest.mark.parametrize("kind", FLOATS)
def test_all_floats(kind):
    """Every half and brain float; of float32 the interesting ones. Widths of any size."""
    every = np.arange(1 << 16, dtype="<u2")
    if kind == "F32":
        every = np.concatenate([every.astype("<u4") << 16, every.astype("<u4")])
    raw = every.view(np.uint8).reshape(64, -1)
    width = every.size // 64
    matrix = packed(kind, raw, width)
    same(np.stack([matrix.row(i) for i in range(64)]), dequantise(raw, kind))
    odd = packed(kind, np.ascontiguousarray(raw[:, : 7 * FLOATS[kind]]), 7)
    same(odd.row(63), dequantise(raw[63, : 7 * FLOATS[kind]], kind))


@pytest.mark.parametrize("kind", TYPES)
def test_packed_is_hardly_larger_than_the_file(kind):
    for rows, width in [(16, 1536), (256, 256), (576, 1536)]:
        size, values = layout(kind)
        in_file = rows * width // values * size
        assert in_file <= packed(kind, blocks(kind, rows, width), width).size <= 1.05 * in_file


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(CapabilityError, match="Q4_K matrix of 16 x 32"):
        Matrix.packed("Q4_K", 16, 32, np.zeros(288, np.uint8), Pool.of(1), Arena())
    with pytest.raises(CapabilityError, match="Q8_0 matrix of 2 x 33"):
        Matrix.packed("Q8_0", 2, 33, np.zeros(68, np.uint8), Pool.of(1), Arena())


def test_an_arena_gives_each_its_own():
    arena = Arena()
    sizes = [1, 64, 65, Arena.PIECE - 64, Arena.PIECE + 1, 4096]
    places = sorted((arena.take(size), size) for size in sizes)
    for (place, size), (after, _) in itertools.pairwise(places):
        assert place % 64 == 0
        assert place + size <= after


def test_memory_that_is_not_there_is_said():
    with pytest.raises(MemoryError, match="1,152,921,504,606,846,976 bytes"):
        kernels.Memory(1 << 60)
