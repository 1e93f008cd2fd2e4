"""Choices: the point mass that the whole row would give, or its error; and when they will do."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.errors import LawError
from forerun.numerics.choice import Choice, decided_by_largest
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


def test_when_they_will_do():
    assert decided_by_largest(GREEDY, 0)
    assert decided_by_largest(SamplingParams(temperature=0, top_k=5, top_p=0.5, min_p=0.2), 0)
    held = SamplingParams(temperature=0, min_tokens=2)
    assert [decided_by_largest(held, n) for n in (0, 1, 2, 3)] == [False, False, True, True]
    changes = [
        {"temperature": 1e-6},
        {"logit_bias": {1: 2.0}},
        {"banned": {1}},
        {"repetition_penalty": 1.1},
        {"presence_penalty": 0.1},
        {"frequency_penalty": 0.1},
        {"processors": [lambda ids, logits: logits]},
    ]
    for change in changes:
        params = SamplingParams(**{"temperature": 0, **change})
        assert not decided_by_largest(params, 9)
        with pytest.raises(AssertionError):
            law(Choice(1, 4), params, HISTORY)
