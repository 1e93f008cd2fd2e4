"""Values of quantised blocks, bit for bit those of the `gguf` package."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from forerun.models.gguf import TENSOR_TYPES
from forerun.models.native.dequantise import BLOCKS, TYPES, dequantise

SIZES = {name: (width, size) for name, width, size in TENSOR_TYPES.values()}
HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]
NO_NUMBERS = [0x7C00, 0xFC00, 0x7E00]  # ±∞ and NaN


def package(raw: np.ndarray, kind: str) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.dtype == theirs.dtype == np.float32
    assert ours.shape == theirs.shape
    missing = np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), missing)
    np.testing.assert_array_equal(ours.view(np.uint32)[~missing], theirs.view(np.uint32)[~missing])


def test_every_type_that_is_run_is_known():
    assert set(TYPES) == {
        "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K",
    }  # fmt: skip
    for kind, block in BLOCKS.items():
        assert block.itemsize == SIZES[kind][1]


@pytest.mark.parametrize("kind", TYPES)
def test_random_bytes(kind):
    size = SIZES[kind][1]
    raw = np.random.default_rng(3).integers(0, 256, (37, 9 * size), dtype=np.uint8)
    same_bits(dequantise(raw, kind), package(raw, kind))


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_code_with_scales_at_the_edges(kind):
    """All pairs of edge scales; in their blocks every byte takes every value."""
    scales = [name for name in ("d", "m", "dmin") if name in BLOCKS[kind].names]
    edges = np.array(HALVES + NO_NUMBERS, dtype="<u2").view("<f2")
    pairs = np.stack(np.meshgrid(edges, edges), axis=-1).reshape(-1, 2)
    blocks = np.zeros((256, len(pairs)), dtype=BLOCKS[kind])
    raw = blocks.view(np.uint8).reshape(256, len(pairs), -1)
    raw[:] = np.arange(raw.shape[2]) * 7 + np.arange(256)[:, None, None]
    for i, name in enumerate(scales):
        blocks[name] = pairs[:, i]
    raw = raw.reshape(256, -1)
    same_bits(dequantise(raw, kind), package(raw, kind))


@pytest.mark.parametrize("kind", TYPES)
def test_many_blocks_are_turned_in_parts(kind, monkeypatch):
    width, size = SIZES[kind]
    raw = np.random.default_rng(4).integers(0, 256, (5, 3 * size), dtype=np.uint8)
    whole = dequantise(raw, kind)
    monkeypatch.setattr("forerun.models.native.dequantise._CHUNK", 4 * size)
    same_bits(dequantise(raw, kind), whole)
    assert dequantise(raw[:0], kind).shape == (0, 3 * width)
    same_bits(dequantise(raw[1], kind), whole[1])
    same_bits(dequantise(raw[::2], kind), whole[::2])


def test_a_block_by_hand():
    """Codes that lie apart in the bytes: a Q5_1 block whose values can be read off."""
    block = np.zeros(1, dtype=BLOCKS["Q5_1"])
    block["d"], block["m"] = 0.5, -3
    block["low"][0, 2] = 0x51  # codes 2 and 18: 1 and 5
    block["high"][0, 2] = 1 << 2  # bit 18: code 18 is 5 + 16
    values = dequantise(block.view(np.uint8), "Q5_1")
    assert values[2] == 0.5 * 1 - 3
    assert values[18] == 0.5 * 21 - 3
    assert set(np.delete(values, [2, 18])) == {-3.0}
