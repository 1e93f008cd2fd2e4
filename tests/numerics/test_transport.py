"""The bounds against all subsets, and against verifiers, by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from forerun.numerics import transport
from forerun.numerics.acceptance import total_variation
from forerun.numerics.token_tree import Drawn
from forerun.numerics.tree_shape import widths
from forerun.verifiers import verifier
from verifiers.trees import Laws, rounds


def laws(seed, vocabulary, zeros=False):
    rng = np.random.default_rng([seed, vocabulary])
    found = rng.dirichlet(np.full(vocabulary, 0.8), size=2)
    if zeros:
        for law in found:
            law[rng.integers(vocabulary)] = 0
    return [law / law.sum() for law in found]


def ordered(q, draws, chosen):
    """Pr(all draws without replacement lie in `chosen`), tuple by tuple."""
    total = 0.0
    for some in itertools.permutations(chosen, draws):
        mass, left = 1.0, 1.0
        for token in some:
            mass, left = mass * q[token] / left if left > 0 else 0.0, left - q[token]
        total += mass
    return total


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("vocabulary", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_prefixes_of_p_over_q_do_as_well_as_all_subsets(count, vocabulary, zeros):
    for seed in range(6):
        p, q = laws(seed, vocabulary, zeros)
        subsets = [
            list(some)
            for size in range(vocabulary + 1)
            for some in itertools.combinations(range(vocabulary), size)
        ]
        draws = min(count, int((q > 0).sum()))
        best = 1 + min(p[some].sum() - q[some].sum() ** count for some in subsets)
        assert transport.independent(p, q, count) == pytest.approx(best, abs=1e-12)
        best = 1 + min(p[some].sum() - ordered(q, draws, some) for some in subsets)
        assert transport.without_replacement(p, q, count) == pytest.approx(best, abs=1e-9)


def test_one_child_is_a_chain():
    for seed in range(10):
        p, q = laws(seed, 5)
        expected = 1 - total_variation(p, q)
        for bound in (transport.independent, transport.without_replacement,
                      transport.greedy_plus_one):  # fmt: skip
            assert bound(p, q, 1) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("drawn", "bound"),
    [
        (Drawn.SAMPLED, transport.independent),
        (Drawn.WITHOUT_REPLACEMENT, transport.without_replacement),
        (Drawn.GREEDY_PLUS_ONE, transport.greedy_plus_one),
    ],
)
@pytest.mark.parametrize("name", ["recursive", "traversal", "greedy_plus_one"])
def test_no_verifier_accepts_more(name, drawn, bound):
    for seed in range(5):
        one = Laws(seed, 4, zeros=False)
        found = sum(
            weight * len(verdict.path)
            for weight, _, verdict in rounds(one, widths((2,)), drawn, verifier(name))
        )
        most = bound(one.p(()), one.q(()), 2)
        assert found <= most + 1e-12
        if (name, drawn) == ("greedy_plus_one", Drawn.GREEDY_PLUS_ONE):
            assert found == pytest.approx(most, abs=1e-12)
