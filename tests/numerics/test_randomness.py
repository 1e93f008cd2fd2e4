from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from forerun.errors import KeyReuseError
from forerun.numerics.randomness import KeyedDraws, Purpose, inverse_cdf, uniforms


def at(seed, round_=0, position=0, **more):
    draws = KeyedDraws(seed, **more)
    draws.begin_round(round_, position)
    return draws


def test_uniforms_lie_strictly_inside():
    edge = uniforms(np.array([0, 2**64 - 1, 2**63], dtype=np.uint64))
    assert edge[0] == 2.0**-54
    assert edge[1] == 1 - 2.0**-53  # (k + ½)·2⁻⁵³ would round to 1
    assert 0 < edge[2] < 1
    exponentials = -np.log1p(-edge)
    assert np.isfinite(exponentials).all()
    assert (exponentials > 0).all()


def test_uniforms_have_53_bits():
    u = uniforms(np.random.default_rng(0).integers(0, 2**64, 200_000, dtype=np.uint64))
    # races need small uniforms told apart: with 24 bits some 200,000 would be equal
    assert len(np.unique(u)) == 200_000
    assert stats.kstest(u, "uniform").pvalue > 1e-4


def test_noise_is_philox_with_a_readable_counter():
    """The words of the published generator: key = seed, counter = (block, node·purpose, …)."""
    noise = KeyedDraws(5).exponentials(9, 3)
    key = np.array([5, 0], dtype=np.uint64)
    raw = np.random.Philox(key=key, counter=[0, int(Purpose.RACE), 9, 0]).random_raw(3)
    assert noise.tolist() == (-np.log1p(-uniforms(raw))).tolist()


def test_noise_of_a_token_does_not_depend_on_how_many_are_asked_for():
    draws = KeyedDraws(2**100 + 1)
    assert (draws.exponentials(3, 1000)[:10] == draws.exponentials(3, 10)).all()


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 2},
        {"seed": 1 + 2**64},
        {"completion": 1},
        {"epoch": 1},
        {"round_": 1},
        {"node": 1},
        {"purpose": Purpose.DRAFT},
    ],
)
def test_every_part_of_a_key_matters(other):
    def coin(seed=1, completion=0, epoch=0, round_=0, node=0, purpose=Purpose.ACCEPT):
        draws = at(seed, round_, completion=completion, epoch=epoch)
        draws.draw(np.array([0.5, 0.5]), (node, purpose))
        return draws.coin((node, purpose))

    assert coin() == coin() != coin(**other)


def test_a_key_is_used_once():
    draws = at(1)
    draws.accept(0.5, (0, Purpose.ACCEPT))
    draws.accept(0.5, (1, Purpose.ACCEPT))
    with pytest.raises(KeyReuseError, match="ACCEPT of node 0"):
        draws.accept(0.5, (0, Purpose.ACCEPT))
    draws.begin_round(1, 1)
    draws.accept(0.5, (0, Purpose.ACCEPT))
    with pytest.raises(KeyReuseError, match="round 1 after round 1"):
        draws.begin_round(1, 2)
    with pytest.raises(KeyReuseError, match="begin_round"):
        KeyedDraws(1).accept(0.5, (0, Purpose.ACCEPT))


def test_coins_at_the_edges():
    for seed in range(2000):
        draws = at(seed)
        assert not draws.accept(0.0, (0, Purpose.ACCEPT))
        assert draws.accept(1.0, (1, Purpose.ACCEPT))


def test_a_race_is_shared_by_position_and_independent_across_them():
    law = np.full(50, 0.02)
    winners = [at(7, round_, 10).race(law, (), Purpose.NEXT) for round_ in range(3)]
    assert len(set(winners)) == 1
    assert at(7, 0, 9).race(law, (4,), Purpose.DRAFT) == winners[0]  # position 9 + 1
    assert len({at(7, 0, position).race(law, (), Purpose.NEXT) for position in range(40)}) > 10


def test_a_race_never_picks_what_has_no_mass():
    law = np.array([0.0, 1e-30, 0.0, 1.0], np.float32)
    assert {at(seed).race(law, (), Purpose.NEXT) for seed in range(500)} <= {1, 3}
    assert at(0).race(np.array([0.0, 1.0]), (), Purpose.NEXT) == 1


@pytest.mark.parametrize("how", ["draw", "race"])
def test_laws_come_out_right_over_seeds(how):
    law = np.array([0.5, 0.0, 0.3, 0.15, 0.05])
    counts = np.zeros(5)
    for seed in range(20_000):
        draws = at(seed)
        token = (
            draws.race(law, (), Purpose.NEXT)
            if how == "race"
            else draws.draw(law, (-1, Purpose.NEXT))
        )
        counts[token] += 1
    assert counts[1] == 0
    kept = law > 0
    assert stats.chisquare(counts[kept], 20_000 * law[kept]).pvalue > 1e-6


def test_the_same_tokens_from_numpy_and_torch():
    law = np.random.default_rng(0).dirichlet(np.ones(300)).astype(np.float32)
    for seed in range(50):
        assert at(seed).race(law, (), Purpose.NEXT) == at(seed).race(
            torch.tensor(law), (), Purpose.NEXT
        )
        key = (-1, Purpose.NEXT)
        assert at(seed).draw(law, key) == at(seed).draw(torch.tensor(law), key)


def test_inverse_cdf_stays_on_the_support():
    law = np.array([0.0, 0.5, 0.5, 0.0])
    assert inverse_cdf(law, 2.0**-54) == 1
    assert inverse_cdf(law, 1 - 2.0**-53) == 2
    assert inverse_cdf(np.array([0.3, 0.0]), 1 - 2.0**-53) == 0


def test_bad_seeds():
    for seed in (-1, 2**128):
        with pytest.raises(ValueError, match="between 0 and"):
            KeyedDraws(seed)
    assert math.isfinite(KeyedDraws(2**128 - 1).exponentials(0, 1)[0])


@pytest.mark.parametrize("size", [1, 5, 1024, 1025, 5000])
def test_inverse_cdf_is_the_running_sums(size):
    rng = np.random.default_rng(size)
    law = rng.random(size) * (rng.random(size) < 0.3)
    law[rng.integers(size)] = 1.0
    law[1030:2060] = 0.0  # a block without mass
    cdf = np.cumsum(law)
    for u in rng.random(500):
        i = inverse_cdf(law, u)
        assert law[i] > 0
        assert cdf[i] >= u * cdf[-1] - 1e-12
        assert cdf[i] - law[i] <= u * cdf[-1] + 1e-12
    assert inverse_cdf(law, 1 - 2.0**-53) == np.flatnonzero(law)[-1]
    assert inverse_cdf(law, 2.0**-54) == np.flatnonzero(law)[0]
