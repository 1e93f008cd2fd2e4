from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forerun.numerics.likeliest import head, likeliest
from forerun.numerics.sparse_law import SparseLaw


def test_ties_go_to_the_lower_id_and_nothing_without_mass_is_shown():
    law = np.array([0.0, 0.25, 0.5, 0.25, 0.0])
    assert head(law, 8) == ((2, 0.5), (1, 0.25), (3, 0.25))
    assert head(law, 2) == ((2, 0.5), (1, 0.25))
    assert head(law, 0) == ()


def test_of_laws_that_are_cut():
    law = SparseLaw(np.array([3, 17, 90]), np.array([0.25, 0.5, 0.25]), 100)
    assert head(law, 2) == ((17, 0.5), (3, 0.25))
    assert head(law, 8) == head(np.asarray(law), 8)
    assert head(SparseLaw.certain(17, 100), 8) == ((17, 1.0),)


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.integers(0, 5), min_size=1, max_size=30).filter(any),
    count=st.integers(1, 9),
)
def test_it_is_the_front_of_the_sorted_law(weights, count):
    law = np.array(weights) / sum(weights)
    ordered = sorted(enumerate(law), key=lambda pair: (-pair[1], pair[0]))
    assert head(law, count) == tuple((i, p) for i, p in ordered if p > 0)[:count]


def test_plain_numbers():
    ((token, value),) = likeliest(np.array([-1.0], np.float32), 3, -np.inf)
    assert type(token) is int
    assert type(value) is float
    assert value == pytest.approx(-1)
