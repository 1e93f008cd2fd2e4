"""u is uniform under p, in every order, also over a vocabulary that was made small."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.certify.observation import RECENT, Block
from forerun.certify.transform import ORDERS, coarse, normalised, transform

RNG = np.random.default_rng(0)
GRID = (np.arange(1000) + 0.5) / 1000


def every_token(p, q, recent=()):
    """A block with one row for each token of a law, all after the same prefix."""
    size = len(p)
    last = [*recent, *[-1] * (RECENT - len(recent))]
    return Block(
        sequence=np.zeros(size, int), position=np.arange(size), token=np.arange(size),
        p=np.tile(p, (size, 1)), q=np.tile(q, (size, 1)), recent=np.tile(last, (size, 1)),
    )  # fmt: skip


def law_of_u(block, order, p, level):
    """Pr(u ≤ level), v integrated on a grid."""
    score = ORDERS[order](block)
    u = np.array([transform(block, score, np.full(len(block), v)) for v in GRID])  # [v, token]
    return float(((u <= level).mean(axis=0) * p).sum())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("level", [0.02, 0.1, 0.37, 0.5, 0.9, 0.99])
def test_u_is_uniform(order, level):
    p, q = RNG.dirichlet(np.ones(6)), RNG.dirichlet(np.ones(6))
    q[2] = p[4] = 0.0
    p, q = p / p.sum(), q / q.sum()
    block = every_token(p, q, recent=(3, 1, 3))
    assert law_of_u(block, order, p, level) == pytest.approx(level, abs=0.002)


def test_each_order_puts_first_what_it_is_for():
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.6, 0.0, 0.3])
    block = every_token(p, q, recent=(2, 3))
    firsts = {
        name: np.argsort(transform(block, score(block), np.full(4, 0.5))).tolist()
        for name, score in ORDERS.items()
    }
    assert firsts == {
        "likelihood": [0, 1, 2, 3],
        "draft ratio": [3, 1, 0, 2],
        "draft": [1, 3, 0, 2],
        "recent": [2, 3, 0, 1],
        "id": [0, 1, 2, 3],
    }


def test_equal_places_go_to_the_lower_id():
    p = np.full(4, 0.25)
    block = every_token(p, p)
    u = transform(block, ORDERS["likelihood"](block), np.full(4, 0.5))
    assert u.tolist() == [0.125, 0.375, 0.625, 0.875]


def test_orders_by_the_draft_have_no_place_where_it_is_not_known():
    p = np.array([0.5, 0.5])
    block = every_token(p, np.full(2, np.nan))
    u = {name: transform(block, score(block), np.full(2, 0.5)) for name, score in ORDERS.items()}
    assert {name for name, values in u.items() if np.isnan(values).all()} == {
        "draft",
        "draft ratio",
    }


@pytest.mark.parametrize("order", ORDERS)
def test_a_small_vocabulary_in_place_of_a_large_one_keeps_u_uniform(order):
    p, q = RNG.dirichlet(np.full(40, 0.3)), RNG.dirichlet(np.full(40, 0.3))
    block = coarse(every_token(p, q, recent=(7, 9)), most=5)
    assert block.p.shape == (40, 6)
    assert block.p.sum(axis=1) == pytest.approx(1)
    kept = np.bincount(block.token, minlength=6)
    assert kept.tolist() == [1, 1, 1, 1, 1, 35]
    assert (block.p == block.p[0]).all()  # whatever was emitted
    for level in (0.1, 0.5, 0.9):
        assert law_of_u(block, order, p, level) == pytest.approx(level, abs=0.003)


def test_a_rest_without_mass_stays_without():
    p = np.array([0.3, 0.7, *[0.0] * 38])
    assert coarse(every_token(p, p), most=5).p[0, -1] == 0


def test_laws_are_made_to_sum_to_1():
    p = np.array([0.5, 0.5 + 5e-5])
    assert normalised(every_token(p, p)).p.sum(axis=1) == pytest.approx(1, abs=1e-15)
