"""Shapes of trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from forerun.errors import OptionError
from forerun.numerics.restricted import without
from forerun.numerics.sparse_law import SparseLaw
from forerun.numerics.token_tree import TokenTree
from forerun.numerics.tree_shape import best, chances, checked_shape, growth, widths


def test_widths():
    assert widths((2, 2)) == (-1, -1, 0, 0, 1, 1)
    assert widths((1, 1, 1)) == (-1, 0, 1)
    assert checked_shape((3, 1)) == (-1, -1, -1, 0, 1, 2)


def test_parents_become_breadth_first():
    assert checked_shape((-1, 0, 1, -1, 3)) == (-1, -1, 0, 1, 2)


@pytest.mark.parametrize(
    ("shape", "said"),
    [("22", "widths or parents"), ((), "widths or parents"), ((8, 8), "at most 64 nodes"),
     ((-1, 2), "no shape of a tree"), ((1.5,), "whole numbers"), ((-1,) * 65, "at most 64")],
)  # fmt: skip
def test_what_is_no_shape(shape, said):
    with pytest.raises(OptionError, match=said):
        checked_shape(shape)


def trees(nodes):
    """Every way to give each node an earlier parent."""
    return itertools.product(*[range(-1, i) for i in range(nodes)])


@pytest.mark.parametrize("ranks", [(0.6, 0.2, 0.1), (0.9, 0.05), (0.3, 0.3, 0.3), (0.5, 0.0)])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_the_best_is_the_best_of_all(nodes, ranks):
    found = best(ranks, nodes)
    most = max(sum(chances(ranks, shape)) for shape in trees(nodes))
    assert sum(chances(ranks, found)) == pytest.approx(most, abs=1e-12)
    flat = best(ranks, nodes, depth=1)
    assert max(TokenTree((0,) * len(flat), flat).depths) == 1


def test_growth_is_the_best_at_every_size():
    ranks = (0.6, 0.3, 0.1)
    parents, found = growth(ranks, 12)
    assert list(found) == sorted(found, reverse=True)
    for n in range(1, 13):
        assert sum(found[:n]) == pytest.approx(sum(chances(ranks, best(ranks, n))))
        assert sum(chances(ranks, parents[:n])) == pytest.approx(sum(found[:n]))


def test_growth_within_a_shape():
    """The likeliest of its nodes, numbered anew: the second child comes after a grandchild."""
    parents, found = growth((0.6, 0.2), 3, within=widths((2, 2)))
    assert (parents, found) == ((-1, 0, -1), pytest.approx((0.6, 0.36, 0.2)))
    assert growth((0.6, 0.2), 9, 1, within=widths((2, 2)))[0] == (-1, -1)
    assert len(growth((0.6, 0.2), 9, within=widths((2, 2)))[0]) == 6


def test_chances_that_rise():
    with pytest.raises(OptionError, match="must not rise"):
        best((0.1, 0.2), 3)


def test_a_law_without_some_tokens():
    q = np.array([0.5, 0.3, 0.2, 0.0])
    assert without(q, [0]).tolist() == pytest.approx([0, 0.6, 0.4, 0])
    assert q[0] == 0.5
    assert without(q, [0, 1, 2]) is None
    assert without(q, []) is q
    sparse = SparseLaw(np.array([1, 3]), np.array([0.25, 0.75]), 5)
    assert np.asarray(without(sparse, [3])).tolist() == [0, 1, 0, 0, 0]
    assert without(sparse, [1, 3]) is None
