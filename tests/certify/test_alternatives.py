"""Laws of named faults, and what it takes to exclude one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from forerun.certify import alternatives
from forerun.certify.alternatives import FAULTS, TARGET_FAULTS
from forerun.certify.bets import FaultSums
from forerun.certify.tiny import RULES, random_pair, rule, sample

RNG = np.random.default_rng(2)
P, Q = RNG.dirichlet(np.ones(4), 50), RNG.dirichlet(np.ones(4), 50)
CLAIM = 0.05


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_a_law(name):
    r = FAULTS[name](P, Q)
    assert r.sum(axis=1) == pytest.approx(1)
    assert (r >= 0).all()
    assert (np.abs(r - P).sum(axis=1) > 0).any()


@pytest.mark.parametrize("name", TARGET_FAULTS)
def test_a_fault_of_the_target_has_a_law(name):
    r = TARGET_FAULTS[name](P)
    assert r.sum(axis=1) == pytest.approx(1)
    assert (r != P).any()


def test_the_right_rule_has_the_targets_law():
    right = alternatives.emitted(P, Q, alternatives.acceptance(P, Q), alternatives.residual(P, Q))
    assert right == pytest.approx(P, abs=1e-14)


@pytest.mark.parametrize("name", sorted(FAULTS.keys() & RULES.keys()))
def test_a_faulty_sampler_writes_the_faults_law(name):
    """The sampler's first token, drafted, against the law by formula: five standard errors."""
    pair = random_pair(vocabulary=6, seed=3, cut=0.1)
    law = FAULTS[name](pair.p, pair.q)
    tv = 0.5 * np.abs(law - pair.p).sum(axis=1)
    row = int(tv.argmax())
    rng = np.random.default_rng(4)
    texts = sample(pair, 200_000, max_tokens=1, rng=rng, rule=rule(name), prompt=(row,))
    found = np.bincount(texts.tokens[:, 0], minlength=6) / 200_000
    assert found == pytest.approx(law[row], abs=5 * 0.5 / math.sqrt(200_000))
    assert tv[row] > (0.0001 if name == "q rounded to bf16" else 0.0015)


def test_bfloat16_rounds_to_even():
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-12, 0.1])
    expected = [1.0, 1.0, 1 + 2**-6, 1 + 2**-7, 0.10009765625]
    assert alternatives.bfloat16(x).tolist() == expected


def against(p, r, tokens, delta):
    """E-value against a move of that mean TV or more."""
    found = FaultSums.of(CLAIM)
    for place, token in enumerate(tokens):
        found.observe(p[place : place + 1], r[place : place + 1], np.array([token]))
    return math.exp(alternatives.log_against(found, CLAIM)(delta))


@pytest.mark.parametrize("name", ["lenience 0.95", "draft mixture", "resample from p"])
@pytest.mark.parametrize("shares", [(1, 1, 1), (0.3, 0.9, 0.5), (0, 1, 0), (0, 0, 0.2)])
def test_an_exclusion_is_fair_to_the_fault(name, shares):
    """Under any hidden share of the fault, the mean of the e-value against its mean TV is ≤ 1."""
    p, r = P[:3], FAULTS[name](P, Q)[:3]
    tv = 0.5 * np.abs(r - p).sum(axis=1)
    delta = float(np.mean(np.array(shares) * tv))
    law = p + np.array(shares)[:, None] * (r - p)
    mean = sum(
        math.prod(law[i, x] for i, x in enumerate(y)) * against(p, r, y, delta)
        for y in itertools.product(range(4), repeat=3)
    )
    assert mean <= 1 + 1e-12
    assert mean > 0.9  # and not by much


def test_the_bound_falls_with_the_tokens_and_holds_what_is_there():
    pair = random_pair(vocabulary=8, seed=1)
    r = FAULTS["lenience 0.95"](pair.p, pair.q)
    rng = np.random.default_rng(6)
    row = rng.integers(8, size=100_000)
    for share in (0.0, 1.0):
        law = (pair.p + share * (r - pair.p))[row]
        token = (rng.random(len(row))[:, None] > law.cumsum(axis=1)[:, :-1]).sum(axis=1)
        bounds = []
        for n in (100, 10_000, 100_000):
            sums = FaultSums.of(0.01)
            sums.observe(pair.p[row[:n]], r[row[:n]], token[:n])
            bounds.append(alternatives.bound(sums, 1e-6, 0.01))
            assert bounds[-1] > share * sums.tv / n
        assert bounds[0] > bounds[1] > bounds[2]
        assert bounds[2] < 0.01 + share * 0.02


def test_nothing_is_excluded_without_tokens():
    assert alternatives.bound(FaultSums.of(0.01), 1e-6, 0.01) == 1
    verdict = alternatives.judged("x", FaultSums.of(0.01), 1e-6, 0.01)
    assert not verdict.excluded
    assert not verdict.excluded_as_it_is


def test_tokens_that_an_exclusion_takes():
    """About log(1/level)/(2·δ²) at π = ½, as the docs say."""
    n = int(1.15 * math.log(1e6) / (2 * 0.01**2))
    p, r = np.full((n, 2), 0.5), np.tile([0.6, 0.4], (n, 1))
    sums = FaultSums.of(0.01)
    sums.observe(p, r, np.arange(n) % 2)
    assert alternatives.bound(sums, 1e-6, 0.01) <= 0.01
    sums = FaultSums.of(0.01)
    sums.observe(p[: n // 2], r[: n // 2], np.arange(n // 2) % 2)
    assert alternatives.bound(sums, 1e-6, 0.01) > 0.01
