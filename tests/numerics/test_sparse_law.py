"""A sparse law is the dense one that it stands for, wherever laws are used."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from forerun.numerics.acceptance import acceptance, excess, mass, residual, total_variation
from forerun.numerics.randomness import inverse_cdf
from forerun.numerics.sparse_law import SparseLaw

SIZE = 40


def sparse(rng, size=SIZE):
    ids = np.sort(rng.choice(size, size=int(rng.integers(1, 9)), replace=False)).astype(np.int32)
    return SparseLaw(ids, rng.dirichlet(np.ones(len(ids))).astype(np.float32), size)


def test_reads_like_an_array():
    law = SparseLaw(np.array([3, 17], np.int32), np.array([0.75, 0.25], np.float32), 20)
    assert len(law) == 20
    assert law.shape == (20,)
    assert [law[i] for i in (0, 3, 16, 17, 18, 19)] == [0, 0.75, 0, 0.25, 0, 0]
    assert law.at(np.array([19, 17, 3, 0])).tolist() == [0, 0.25, 0.75, 0]
    whole = np.asarray(law)
    assert whole.dtype == law.dtype == np.float32
    assert whole.tolist() == list(law) == [law[i] for i in range(20)]
    for outside in (-1, 20):
        with pytest.raises(IndexError, match=f"token id {outside} is not in 0 to 19"):
            _ = law[outside]


def test_certainty():
    law = SparseLaw.certain(4, 6)
    assert np.asarray(law).tolist() == [0, 0, 0, 0, 1, 0]
    assert inverse_cdf(law, 0.3) == 4


def test_draws_are_those_of_the_dense_law():
    rng = np.random.default_rng(0)
    for _ in range(300):
        law, u = sparse(rng), float(rng.random())
        assert inverse_cdf(law, u) == inverse_cdf(np.asarray(law), u)
        assert inverse_cdf(law, 1 - 2.0**-53) == law.ids[-1]
        assert inverse_cdf(law, 2.0**-54) == law.ids[0]


@pytest.mark.parametrize("draft", ["point mass", "sparse", "dense", "torch", "sparse beside dense"])
def test_verification_is_that_of_the_dense_law(draft):
    rng = np.random.default_rng(len(draft))
    for case in range(300):
        p, q = sparse(rng), sparse(rng)
        if case % 3 == 0:
            q = p
        dense_p, dense_q = np.asarray(p), np.asarray(q)
        token = int(rng.choice(SIZE, p=dense_q / dense_q.sum()))
        forms = {
            "point mass": (p, None),
            "sparse": (p, q),
            "dense": (p, dense_q),
            "torch": (p, torch.tensor(dense_q)),
            "sparse beside dense": (dense_p, q),
        }
        ours, theirs = forms[draft]
        dense = None if theirs is None else dense_q
        scale = float(rng.choice([1.0, 0.6]))
        assert mass(ours, token) == mass(dense_p, token)
        assert acceptance(ours, theirs, token) == acceptance(dense_p, dense, token)
        assert excess(ours, theirs, token, scale) == pytest.approx(
            excess(dense_p, dense, token, scale), abs=1e-6
        )
        found = np.asarray(residual(ours, theirs, token, scale))
        expected = residual(dense_p, dense, token, scale)
        assert found == pytest.approx(expected, abs=1e-6)
        assert ((found > 0) == (expected > 0)).all()
        if theirs is not None:
            assert total_variation(ours, theirs) == pytest.approx(
                total_variation(dense_p, dense_q), abs=1e-6
            )


def test_ids_beyond_the_vocabulary_have_no_mass():
    law = SparseLaw.certain(4, 6)
    assert mass(law, 6) == mass(law, -1) == 0
    assert np.asarray(residual(law, None, 17)).tolist() == np.asarray(law).tolist()


@pytest.mark.parametrize("rising", [True, False])
def test_a_law_of_some_ids_of_a_vocabulary(rising):
    rng = np.random.default_rng(1)
    ids = rng.permutation(SIZE)[:9]
    ids = np.sort(ids) if rising else ids
    p = rng.dirichlet(np.full(9, 0.5)).astype(np.float32)
    p[4] = 0
    law = SparseLaw.among(p, ids, SIZE)
    assert (np.diff(law.ids) > 0).all()
    assert ids[4] not in law.ids
    wanted = np.zeros(SIZE, np.float32)
    wanted[ids] = p
    assert np.asarray(law).tolist() == wanted.tolist()
    cut = SparseLaw(np.array([1, 3], np.int32), np.array([0.4, 0.6], np.float32), 9)
    assert np.asarray(SparseLaw.among(cut, ids, SIZE))[ids].tolist() == list(cut)
    assert SparseLaw.among(SparseLaw.certain(5, 9), ids, SIZE).only == ids[5]
