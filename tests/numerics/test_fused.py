"""The C versions of law and race against the NumPy ones that define them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun import clib
from forerun.errors import LawError
from forerun.numerics import fused
from forerun.numerics.distribution import History, defined_law, law, point_mass
from forerun.numerics.randomness import KeyedDraws, Purpose
from forerun.numerics.sparse_law import SparseLaw
from forerun.sampling import SamplingParams

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")

PATHS = [
    path
    for path in (b"plain", b"avx2", b"avx512")
    if clib.library() is not None and fused.functions().fr_has_laws(path)
]
SIZES = [1, 2, 63, 64, 65, 1000, 1023, 1024, 1025, 5000]
CUTS = [
    {"temperature": 0.0},
    {},
    {"temperature": 0.7},
    {"top_p": 0.95},
    {"temperature": 1.6, "top_p": 0.5},
    {"top_k": 1},
    {"top_k": 50},
    {"top_k": 40, "top_p": 0.9, "min_p": 0.02, "temperature": 0.8},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"top_p": 0.9999999},
]


def rows(size):
    """Rows of several shapes: wide, narrow, as peaked as a language model's, with masked tokens."""
    rng = np.random.default_rng(size)
    normal = rng.normal(size=(4, size)).astype(np.float32)
    scales = np.array([[0.01], [1.0], [3.0], [30.0]], np.float32)
    masked = 2 * rng.normal(size=size).astype(np.float32)
    masked[rng.random(size) < 0.5] = -np.inf
    masked[-1] = 0
    equal = np.zeros(size, np.float32)
    return [*(normal * scales), masked, equal, np.round(normal[1])]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_the_law_is_the_defined_one(size, cut):
    params = SamplingParams(**cut)
    for row in rows(size):
        found, defined = np.asarray(fused.law(row, params)), defined_law(row, params)
        assert ((found > 0) == (defined > 0)).all()
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, defined, rtol=2e-6, atol=1e-44)
        assert float(found.sum(dtype=np.float64)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_all_paths_give_the_same_bits(size, cut):
    params = SamplingParams(**cut)
    for row in rows(size):
        first = np.asarray(fused.law(row, params, PATHS[0]))
        for path in (*PATHS[1:], None):
            assert np.asarray(fused.law(row, params, path)).tobytes() == first.tobytes()


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(st.sampled_from([-np.inf, -2.0, -0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=9),
    top_k=st.integers(0, 10),
    top_p=st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
    temperature=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_ties_go_to_the_lower_id(logits, top_k, top_p, temperature):
    row = np.array(logits, np.float32)
    params = SamplingParams(top_k=top_k, top_p=top_p, temperature=temperature)
    if np.isneginf(row).all():
        with pytest.raises(LawError, match="empty support"):
            fused.law(row, params)
        return
    found, defined = np.asarray(fused.law(row, params)), defined_law(row, params)
    assert (found > 0).tolist() == (defined > 0).tolist()
    np.testing.assert_allclose(found, defined, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("top_p", [0.2, 0.95, 0.9999])
def test_what_is_kept_of_a_large_vocabulary(scale, top_p):
    logits = np.random.default_rng(3).normal(size=50_000).astype(np.float32) * scale
    w = np.exp((logits - logits.max()).astype(np.float64))
    order = np.argsort(-w, kind="stable")
    k = int(np.argmax(np.cumsum(w[order]) >= top_p * w.sum())) + 1
    nucleus = fused.law(logits, SamplingParams(top_p=top_p))
    # the weights are rounded to float32, so that the sums are reached a little earlier or later
    assert len(nucleus.ids) == pytest.approx(k, abs=1 + 1e-5 * k)
    assert set(nucleus.ids) == set(order[: len(nucleus.ids)])
    largest = fused.law(logits, SamplingParams(top_k=k))
    assert set(largest.ids) == set(order[:k])
    assert (np.diff(largest.ids) > 0).all()


def test_exp_is_within_two_units_of_the_last_place():
    x = -np.concatenate([np.linspace(0, 75, 200_001), np.geomspace(1e-9, 1, 50_000)])
    row = np.concatenate([[0.0], x]).astype(np.float32)
    p = fused.law(row, SamplingParams()).astype(np.float64)
    exact = np.exp(row.astype(np.float64))
    assert np.abs(p / p[0] / exact - 1).max() < 3 * 2.0**-23  # p and p[0] are rounded as well


def test_what_underflows():
    row = np.array([0.0, -200.0, -100.0, -np.inf], np.float32)
    for path in PATHS:
        p = fused.law(row, SamplingParams(), path)
        assert p[0] == 1
        assert p[1] == p[3] == 0
        assert p[2] == pytest.approx(math.exp(-100), rel=0.05)  # few bits are left there
    assert fused.law(row, SamplingParams(min_p=1e-50)).ids.tolist() == [0, 2]


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("cut", [{}, {"temperature": 0.0}, {"top_p": 0.9}], ids=str)
def test_bad_logits_are_found_wherever_they_are(bad, cut):
    params = SamplingParams(**cut)
    for size in (1, 64, 1025):
        for place in {0, size // 2, size - 1}:
            row = np.random.default_rng(0).normal(size=size).astype(np.float32)
            row[place] = np.copysign(np.float32(bad), bad)
            for path in PATHS:
                with pytest.raises(LawError, match=r"NaN or \+inf"):
                    fused.law(row, params, path)


def test_greedy_takes_the_first_of_the_largest():
    for path, place in itertools.product(PATHS, (0, 1, 1023, 1024, 2999)):
        row = np.full(3000, -1.0, np.float32)
        row[place:] = 0.0
        row[place] = -0.0
        found = fused.law(row, SamplingParams(temperature=0), path)
        assert found.ids.tolist() == [place]
        assert found.p.tolist() == [1.0]


def test_c_serves_float32_in_numpy_alone():
    logits = np.array([0.0, 1.0, 2.0])
    params = SamplingParams(top_k=2)
    history = History((), 0)
    assert isinstance(law(logits.astype(np.float32), params, history), SparseLaw)
    assert isinstance(law(logits, params, history), np.ndarray)
    assert isinstance(point_mass(1, logits.astype(np.float32)), SparseLaw)
    assert isinstance(point_mass(1, logits), np.ndarray)
    whole = law(logits.astype(np.float32), SamplingParams(), history)
    assert isinstance(whole, np.ndarray)


def test_penalties_masks_and_strides_come_before():
    logits = np.random.default_rng(1).normal(size=600).astype(np.float32)
    params = SamplingParams(
        temperature=0.7, top_p=0.9, banned=[3], logit_bias={5: 2.0}, repetition_penalty=1.3
    )
    history = History((1, 2, 7), 2, (7,))
    found = np.asarray(law(logits, params, history))
    wide = law(logits.astype(np.float64), params, history)
    np.testing.assert_allclose(found, wide, rtol=1e-5, atol=1e-9)
    apart = np.zeros((600, 2), np.float32)
    apart[:, 0] = logits
    assert np.asarray(law(apart[:, 0], params, history)).tobytes() == found.tobytes()


def test_uniforms_are_numpys_to_the_last_bit(monkeypatch):
    def coins():
        draws = KeyedDraws(2**100 + 12345, completion=3, epoch=2)
        draws.begin_round(7, 20)
        for node in range(50):
            draws.accept(0.5, (node, Purpose.ACCEPT))
        return [draws.coin((node, Purpose.ACCEPT)) for node in range(50)]

    ours = coins()
    monkeypatch.setattr(fused, "functions", lambda: None)
    assert ours == coins()


@pytest.mark.parametrize("sparse", [False, True])
def test_races_have_the_defined_winner(sparse):
    rng = np.random.default_rng(int(sparse))
    for seed in range(300):
        size = int(rng.integers(2, 3000))
        p = rng.dirichlet(np.full(size, 0.1)).astype(np.float32)
        p[rng.random(size) < 0.3] = 0
        p[-1] += 1e-3
        ids = np.flatnonzero(p)
        draws = KeyedDraws(seed)
        draws.begin_round(0, 5)
        noise = draws.exponentials(7, size)
        expected = ids[np.argmin(noise[ids] / p[ids].astype(np.float64))]
        raced = SparseLaw(ids.astype(np.int32), p[ids], size) if sparse else p
        assert draws.race(raced, (1, 2), Purpose.NEXT) == expected


def test_a_race_over_a_vocabulary_may_be_won_anywhere():
    size = 50_000
    p = np.full(size, 1 / size, np.float32)
    winners = []
    for seed in range(200):
        draws = KeyedDraws(seed)
        draws.begin_round(0, 0)
        winners.append(draws.race(p, (), Purpose.NEXT))
        assert winners[-1] == np.argmin(draws.exponentials(0, size))
    assert len(set(np.array(winners) // 5000)) == 10


def test_without_the_library_numpy_does_it_all(monkeypatch):
    row = np.random.default_rng(2).normal(size=1000).astype(np.float32) * 3
    params, history = SamplingParams(top_p=0.9), History((), 0)
    fast = law(row, params, history)
    draws = KeyedDraws(5)
    draws.begin_round(0, 0)
    winner = draws.race(fast, (), Purpose.NEXT)
    monkeypatch.setattr(fused, "functions", lambda: None)
    slow = law(row, params, history)
    assert isinstance(slow, np.ndarray)
    assert draws.race(slow, (), Purpose.NEXT) == draws.race(fast, (), Purpose.NEXT) == winner
