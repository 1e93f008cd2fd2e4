"""Choices: the point mass that the whole row would give, or its error; and when they will do."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.errors import LawError
from forerun.numerics.choice import Choice, Made, adjusts
from forerun.numerics.distribution import History, law, point_mass
from forerun.sampling import SamplingParams

GREEDY = SamplingParams(temperature=0)
HISTORY = History([1, 2, 3], 2)


def test_the_law_is_that_of_the_row():
    row = np.array([0.0, 3.0, 3.0, 1.0])
    found = law(Choice(1, 4), GREEDY, HISTORY)
    np.testing.assert_array_equal(np.asarray(found), law(row, GREEDY, HISTORY))
    np.testing.assert_array_equal(np.asarray(point_mass(2, Choice(1, 4))), point_mass(2, row))


@pytest.mark.parametrize(
    ("found", "row"),
    [(-1, [0.0, np.nan]), (-1, [0.0, np.inf]), (-2, [-np.inf, -np.inf])],
)
def test_errors_are_those_of_the_row(found, row):
    with pytest.raises(LawError) as whole:
        law(np.array(row), GREEDY, HISTORY)
    with pytest.raises(LawError, match=str(whole.value).replace("+", r"\+")):
        law(Choice(found, 2), GREEDY, HISTORY)


MADE = [
    ({}, 0, None, [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]),
    ({"top_k": 2}, 2, [1, 3, 7, 7], [0.4, 0.6, 9, 9], [0, 0.4, 0, 0.6]),
    ({"temperature": 0}, 2, None, None, [0, 0, 1, 0]),
]


@pytest.mark.parametrize(("sampling", "found", "ids", "p", "whole"), MADE)
def test_a_law_that_was_made(sampling, found, ids, p, whole):
    params = SamplingParams(**sampling)
    made = Made(params, found, ids and np.array(ids), p and np.array(p), 4)
    assert np.asarray(law(made, params, HISTORY)).tolist() == whole
    assert np.asarray(point_mass(2, made)).tolist() == [0, 0, 1, 0]
    for bad in (-1, -2):
        with pytest.raises(LawError):
            law(Made(params, bad, None, None, 4), params, HISTORY)
    with pytest.raises(AssertionError):
        law(made, SamplingParams(**sampling), HISTORY)  # another request's, be they equal


def test_when_they_will_do():
    assert not adjusts(GREEDY, 0)
    assert not adjusts(SamplingParams(top_k=5, top_p=0.5, min_p=0.2), 0)
    held = SamplingParams(min_tokens=2)
    assert [adjusts(held, n) for n in (0, 1, 2, 3)] == [True, True, False, False]
    changes = [
        {"logit_bias": {1: 2.0}},
        {"banned": {1}},
        {"repetition_penalty": 1.1},
        {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1},
        {"processors": [lambda ids, logits: logits]},
    ]
    for change in changes:
        params = SamplingParams(**{"temperature": 0, **change})
        assert adjusts(params, 9)
        with pytest.raises(AssertionError):
            law(Choice(1, 4), params, HISTORY)
    with pytest.raises(AssertionError):
        law(Choice(1, 4), SamplingParams(temperature=1e-6), HISTORY)
