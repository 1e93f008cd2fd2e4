"""The band holds at all times, and is no wider than it must be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forerun.certify.band import Band, width


def test_before_any_token_it_says_nothing():
    assert Band().bound(1e-6) == 1
    band = Band()
    band.observe(np.array([np.nan]))
    assert band.bound(1e-6) == 1


def test_it_holds_at_all_times_for_a_law_that_changes():
    """u of density 1 ± 0.3 on the halves, in turns: mean distance .05. Level .05, 200 runs."""
    rng, failures = np.random.default_rng(3), 0
    slant = np.where(np.arange(4000) % 3 == 0, 0.3, 0.0)
    truth = np.cumsum(slant) / np.arange(1, 4001) / 2
    for _ in range(200):
        u = rng.random(4000)
        low = rng.random(4000) < (1 + slant) / 2
        u = np.where(low, u / 2, (1 + u) / 2)
        band = Band()
        for start in range(0, 4000, 200):
            band.observe(u[start : start + 200])
            if band.bound(0.05) < truth[start + 199]:
                failures += 1
                break
    assert failures <= 20  # 99.9% quantile of binomial(200, .05)


def test_it_shrinks_as_a_square_root():
    widths = {n: width(n, 1e-6 / 1000) for n in (1_000, 100_000, 10_000_000)}
    assert widths[100_000] == pytest.approx(widths[1_000] / 10, rel=0.4)
    assert widths[100_000] == pytest.approx(0.0125, abs=0.002)
    assert widths[10_000_000] == pytest.approx(widths[100_000] / 10, rel=0.3)


def test_a_point_mass_is_far_from_uniform():
    band = Band()
    band.observe(np.full(1000, 0.999999))
    assert band.distance() == pytest.approx(0.999)
    assert band.tokens == 1000
    assert band.bound(0.05) == 1


def test_exact_uniform_leaves_width_alone():
    band = Band()
    band.observe((np.arange(100_000) + 0.5) / 100_000)
    assert band.distance() < 1e-9
    assert band.bound(1e-6) == pytest.approx(width(100_000, 1e-9) + 1e-3)
    assert not math.isnan(band.bound(1e-300))
