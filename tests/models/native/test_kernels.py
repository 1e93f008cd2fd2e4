"""Products of packed matrices: against float64, and every path against the portable one.

Activations are rounded to codes of 8 bits by groups of 32, x ≈ s · code with s = max|x| / 127. The
tests round them likewise, so that what is left is rounding to float32: with G groups and K terms

    |y − Σ w s code| ≤ (G + 4) · 2⁻²³ · Σ s |code| (|w| + 2 max |w|)

where the last factor bounds what a weight's two parts, code and minimum, are before they cancel.
"""

from __future__ import annotations

import numpy as np
import pytest

from forerun import clib
from forerun.errors import OptionError
from forerun.models.native import kernels
from forerun.models.native.dequantise import BLOCKS, dequantise
from forerun.models.native.kernels import FLOAT_TYPES, TYPES, Pool
from models.native.test_matrices import blocks, packed
from models.tiny_gguf import _random

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")

PATHS = kernels.paths() if clib.library() is not None else ()
CODED = [kind for kind in TYPES if kind not in FLOAT_TYPES]
F32 = np.float32


def weights(kind, rows, width, seed=0):
    """Random blocks of fair scales."""
    return (
        _random(np.random.default_rng(seed), "w.weight", (rows, width), kind, 1.0)
        .view(np.uint8)
        .reshape(rows, -1)
    )


def activations(rows, width, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(F32)


def rounded(x):
    """Codes [R, G, 32] and scales [R, G, 1], as the kernels round activations."""
    groups = x.reshape(len(x), -1, 32)
    largest = np.abs(groups).max(axis=2, keepdims=True)
    largest[largest < F32(2.0**-119)] = 0
    with np.errstate(divide="ignore"):
        inverse = np.where(largest > 0, F32(127) / largest, F32(0)).astype(F32)
    codes = np.where(largest > 0, np.rint((groups * inverse).astype(F32)), 0)
    return np.clip(codes, -127, 127), (largest / F32(127)).astype(F32)


def bits(y):
    """NaN is NaN, whatever its sign."""
    found = y.view(np.int32).copy()
    found[np.isnan(y)] = 0x7FC00000
    return found


def product(matrix, x, path, threads=1):
    return matrix.times(x, Pool.of(threads), path)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", CODED)
def test_products_are_those_of_rounded_activations(kind, path):
    width = 768
    raw, x = weights(kind, 40, width), activations(9, width)
    codes, scales = rounded(x)
    seen = (codes * scales.astype(np.float64)).reshape(len(x), width)
    w = dequantise(raw, kind).astype(np.float64)
    ours = product(packed(kind, raw, width), x, path)
    # |minima| and |codes| of the weights: what is added up, before it cancels
    sizes = np.abs(w) + 2 * np.abs(w).max(axis=1, keepdims=True)
    bound = (width / 32 + 4) * 2.0**-23 * np.abs(seen) @ sizes.T
    error = np.abs(ours - seen @ w.T)
    assert (error <= bound).all()
    # float activations would be another result, and so would one code less
    assert (np.abs(ours - x.astype(np.float64) @ w.T) > 4 * bound).mean() > 0.5


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", sorted(FLOAT_TYPES))
def test_products_of_floats_are_not_rounded(kind, path):
    width = 200
    raw, x = weights(kind, 21, width), activations(9, width)
    w = dequantise(raw, kind).astype(np.float64)
    ours = product(packed(kind, raw, width), x, path)
    bound = (width + 1) * 2.0**-24 * np.abs(x.astype(np.float64)) @ np.abs(w).T
    assert (np.abs(ours - x.astype(np.float64) @ w.T) <= bound).all()


def test_rounding_halves_what_it_may():
    """The codes' error is at most half a scale, so the test above cannot pass by luck."""
    x = activations(4, 64)
    codes, scales = rounded(x)
    assert np.abs(codes).max() == 127
    error = np.abs(codes * scales.astype(np.float64) - x.reshape(4, 2, 32)) / scales
    assert 0.4 < error.max() <= 0.5 + 1e-4


@pytest.mark.parametrize("kind", TYPES)
def test_each_row_is_the_same_in_any_company_on_any_path(kind):
    width = 256
    raw, x = weights(kind, 35, width, seed=3), activations(40, width, seed=4)
    matrix = packed(kind, raw, width)
    alone = np.concatenate([product(matrix, row[None], PATHS[0]) for row in x])
    assert len(np.unique(bits(alone), axis=0)) == 40
    for rows in range(1, 41):
        for path in PATHS[:-1] if rows % 8 else PATHS:
            found = product(matrix, x[:rows], path, threads=1 + rows % 3)
            np.testing.assert_array_equal(bits(found), bits(alone[:rows]), err_msg=path)
    for start in (1, 7, 33):
        found = product(matrix, x[start:], PATHS[0])
        np.testing.assert_array_equal(bits(found), bits(alone[start:]))


EXTREMES = {
    "all largest": lambda x: np.where(x < 0, F32(-1), F32(1)),
    "all least": lambda x: np.full_like(x, -1),
    "zeros": lambda x: 0 * x,
    "one huge": lambda x: np.where(np.arange(x.shape[1]) % 32 == 5, x * F32(1e30), x),
    "largest floats": lambda x: np.sign(x) * np.finfo(F32).max,
    "small": lambda x: x * F32(2.0**-118),
    "subnormal": lambda x: x * F32(2.0**-127),
    "least floats": lambda x: np.sign(x) * F32(2.0**-149),
}


@pytest.mark.parametrize("codes", [0x00, 0xFF, 0x80, 0x7F, None], ids=str)
@pytest.mark.parametrize("kind", CODED)
def test_extreme_codes_and_activations(kind, codes):
    """`vpmaddubsw` saturates on 8-bit codes, `sdot` takes signed ones: not here."""
    width, rows = 256, 17
    raw = weights(kind, rows, width)
    if codes is not None:
        found = raw.view(BLOCKS[kind])
        for name in ("codes", "low", "high", "scales"):
            if name in (BLOCKS[kind].names or ()):
                found[name] = np.uint8(codes).view(found[name].dtype)
    matrix = packed(kind, raw, width)
    w = dequantise(raw, kind).astype(np.float64)
    for name, change in EXTREMES.items():
        x = change(activations(3, width)).astype(F32)
        ours = product(matrix, x, "portable")
        for path in PATHS:
            found = product(matrix, x, path, threads=2)
            np.testing.assert_array_equal(bits(found), bits(ours), err_msg=name)
        if name == "largest floats":  # these may overflow, alike on all paths
            continue
        seen, scales = rounded(x)
        seen = (seen * scales.astype(np.float64)).reshape(x.shape)
        sizes = np.abs(w) + 2 * np.abs(w).max(axis=1, keepdims=True)
        bound = 14 * 2.0**-23 * np.abs(seen) @ sizes.T + 2.0**-140
        assert (np.abs(ours.astype(np.float64) - seen @ w.T) <= bound).all(), name


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kind", TYPES)
def test_what_is_not_finite_goes_on(kind, bad):
    """In its own row, and whatever else stands in the group; never as a silent number."""
    width = 256
    matrix = packed(kind, weights(kind, 20, width), width)
    for place in (0, 17, 255):
        x = activations(3, width)
        x[1, place] = bad
        for path in PATHS:
            found = product(matrix, x, path)
            assert not np.isfinite(found[1]).any() or kind in FLOAT_TYPES
            assert not np.isfinite(found[1]).all()
            good = product(matrix, x[[0, 2]], path)
            np.testing.assert_array_equal(bits(found[[0, 2]]), bits(good))


@pytest.mark.parametrize("kind", CODED)
def test_infinite_scales_go_on(kind):
    raw = blocks(kind, 16, 256)
    raw.view(BLOCKS[kind])["d"] = np.inf
    for path in PATHS:
        assert not np.isfinite(product(packed(kind, raw, 256), activations(2, 256), path)).any()


def test_a_path_that_is_not_here_is_named():
    matrix = packed("F32", weights("F32", 16, 32), 32)
    with pytest.raises(OptionError, match=r"instruction path 'sse2' is not here; these are: .*"):
        product(matrix, activations(1, 32), "sse2")
    assert kernels.checked_path(None) == PATHS[0]
    assert PATHS[-1] == "portable"
