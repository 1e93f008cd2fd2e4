"""Bets are fair: the mean of the next wealth under p is the wealth now, by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from forerun.certify import alternatives
from forerun.certify.bets import (
    EDGES,
    KAPPAS,
    FaultSums,
    Histograms,
    dirichlet,
    log_gamma,
    log_mean,
    log_mix,
)

RNG = np.random.default_rng(1)
WIDTHS = np.diff(EDGES)
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2


def test_log_gamma():
    x = np.array([1e-4, 0.4, 1.0, 3.2, 20.0, 4000.0, 2e6])
    assert log_gamma(x) == pytest.approx([math.lgamma(value) for value in x], rel=1e-12, abs=1e-8)


def test_mixtures_of_logarithms():
    assert log_mix([0.0, math.log(3)], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert log_mean([-np.inf, -np.inf]) == -np.inf
    assert log_mean([1000.0, -1000.0]) == pytest.approx(1000 - math.log(2))


def test_the_dirichlet_gambler_is_the_product_of_his_bets():
    bins = [0, 3, 3, 7, 3, 1]
    for found, kappa in zip(dirichlet(np.bincount(bins, minlength=8)[None]), KAPPAS):
        counts, expected = np.zeros(8), 0.0
        for t, b in enumerate(bins):
            bet = (counts[b] + kappa * WIDTHS[b]) / (t + kappa)
            expected += math.log(bet / WIDTHS[b])
            counts[b] += 1
        assert found[0] == pytest.approx(expected, abs=1e-7)


def wealth(past, u, classes):
    """Of histograms by context after a past, [(u, class)], and one more u."""
    bets = Histograms(["context"])
    for value, name in past:
        bets.observe(np.array([value]), {"context": [name]})
    if u is not None:
        bets.observe(np.array([u]), {"context": classes})
    return math.exp(bets.log_wealth()["context"])


@pytest.mark.parametrize("name", ["seen", "new"])
def test_histograms_are_fair(name):
    past = [(u, "seen" if i % 3 else "other") for i, u in enumerate([0.01, 0.3, 0.01, 0.99, 0.05])]
    now = wealth(past, None, None)
    following = sum(w * wealth(past, u, [name]) for w, u in zip(WIDTHS, MIDDLES))
    assert following == pytest.approx(now, rel=1e-9)
    assert abs(now - 1) > 0.01


def test_a_token_without_u_changes_nothing():
    past = [(0.01, "a"), (0.3, "b")]
    assert wealth(past, np.nan, ["a"]) == pytest.approx(wealth(past, None, None))


def test_opposite_faults_of_two_contexts_are_seen_apart_and_not_together():
    rng = np.random.default_rng(5)
    context = rng.integers(2, size=4000)
    u = rng.random(4000)
    moved = rng.random(4000) < 0.2  # to the lower half in one context, to the upper in the other
    u = np.where(moved, (u + context) / 2, u)
    context[2000:], u[2000:] = context[:2000], u[:2000]
    mirrored = slice(2000, 4000)  # so that what is seen together cancels to the last token
    context[mirrored], u[mirrored] = 1 - context[mirrored], 1 - u[mirrored]
    bets = Histograms(["all", "context"])
    bets.observe(u, {"context": context})
    found = bets.log_wealth()
    assert found["context"] > math.log(1e6)
    assert found["all"] < 2


def test_classes_as_names_and_as_numbers_are_the_same():
    u, keys = RNG.random(300), RNG.integers(7, size=300)
    found = []
    for classes in (keys, keys.tolist()):
        bets = Histograms(["context"])
        bets.observe(u, {"context": classes})
        found.append((bets.log_wealth(), list(bets.counts("context"))))
    assert found[0] == found[1]


def sums(p, r, tokens):
    found = FaultSums.of(0.01)
    for token in tokens:
        found.observe(p[None], r[None], np.array([token]))
    return math.exp(found.log_wealth())


def test_bets_along_a_fault_are_fair():
    p, r = RNG.dirichlet(np.ones(4)), RNG.dirichlet(np.ones(4))
    for past in itertools.product(range(4), repeat=2):
        following = sum(p[x] * sums(p, r, [*past, x]) for x in range(4))
        assert following == pytest.approx(sums(p, r, past), rel=1e-9)


def test_a_fault_that_writes_what_the_target_never_does_makes_no_bet_better_than_fair():
    p, r = np.array([0.0, 0.4, 0.6]), np.array([0.3, 0.3, 0.4])
    assert sum(p[x] * sums(p, r, [x]) for x in (1, 2)) <= 1 + 1e-12


def test_chunks_do_not_matter():
    p, q = RNG.dirichlet(np.ones(5), 40), RNG.dirichlet(np.ones(5), 40)
    token = RNG.integers(5, size=40)
    whole, parts = FaultSums.of(0.01), FaultSums.of(0.01)
    r = alternatives.lenience(p, q)
    whole.observe(p, r, token)
    for i in range(0, 40, 7):
        parts.observe(p[i : i + 7], r[i : i + 7], token[i : i + 7])
    assert parts.log_wealth() == pytest.approx(whole.log_wealth())
    assert (parts.tokens, parts.favoured) == (whole.tokens, whole.favoured)
