"""Tests at fixed numbers of tokens: against scipy, against published quantiles, and on faults."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from forerun.certify.diagnostics import (
    AT,
    Diagnostics,
    anderson_darling,
    anderson_darling_tail,
    chi_square_tail,
    diagnostic,
)


@pytest.mark.parametrize("x", [0.0, 3.0, 24.0, 60.0, 400.0])
def test_the_tail_of_chi_square(x):
    assert chi_square_tail(x, 24) == pytest.approx(stats.chi2.sf(x, 24), rel=1e-9)


@pytest.mark.parametrize(("z", "p"), [(0.7742, 0.5), (1.933, 0.1), (2.492, 0.05), (3.878, 0.01)])
def test_the_tail_of_anderson_darling(z, p):
    """Quantiles of A² (Stephens 1974; Marsaglia 2004)."""
    assert anderson_darling_tail(z) == pytest.approx(p, rel=0.01)


def test_anderson_darling_itself():
    u = np.random.default_rng(1).random(50)
    x = np.sort(u)
    by_hand = -50 - sum(
        (2 * i + 1) * (np.log(x[i]) + np.log(1 - x[49 - i])) for i in range(50)
    ) / 50  # fmt: skip
    assert anderson_darling(u) == pytest.approx(by_hand)
    assert anderson_darling_tail(anderson_darling(np.zeros(50))) == 0


def test_p_values_of_uniform_numbers_are_uniform():
    rng, n = np.random.default_rng(2), 400
    found = [diagnostic(rng.random(1000)) for _ in range(n)]
    for values in ([d.chi_square_p for d in found], [d.anderson_darling_p for d in found]):
        assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_a_bend_is_seen():
    u = np.random.default_rng(3).random(1000) ** 1.3
    seen = diagnostic(u)
    assert seen.chi_square_p < 1e-3
    assert seen.anderson_darling_p < 1e-3


def test_it_looks_when_it_said_it_would_and_at_no_other_time():
    kept, rng = Diagnostics(), np.random.default_rng(4)
    for u in rng.random(AT[1] + 500):
        kept.observe(float(u))
    assert [each.tokens for each in kept.found] == list(AT[:2])
