from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from forerun.errors import LawError
from forerun.numerics.logprobs import TokenLogprob, token_logprob


def rows(dtype):
    return st.lists(st.integers(-8, 8), min_size=1, max_size=40).map(
        lambda values: np.array(values, dtype) / 4
    )


@settings(max_examples=200, deadline=None)
@given(logits=rows(np.float32) | rows(np.float64), top=st.integers(0, 20), data=st.data())
def test_log_softmax_and_the_likeliest(logits, top, data):
    """Few values, so that there are ties; the order is sorted by hand."""
    token = data.draw(st.integers(0, len(logits) - 1))
    found = token_logprob(logits, token, top)
    expected = log_softmax(logits.astype(np.float64))
    assert found.token == token
    assert found.logprob == pytest.approx(expected[token], abs=1e-12)
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:top]
    assert [i for i, _ in found.top] == order
    assert [p for _, p in found.top] == pytest.approx([expected[i] for i in order], abs=1e-12)


def test_float32_logits_are_summed_in_float64():
    logits = np.array([0.0, *[-17.0] * 100_000], np.float32)
    exact = -math.log(1 + 100_000 * math.exp(-17))
    assert token_logprob(logits, 0, 0).logprob == pytest.approx(exact, rel=1e-9)


def test_large_logits_do_not_overflow():
    found = token_logprob(np.array([3e38, -3e38, 3e38], np.float32), 2, 1)
    assert found == TokenLogprob(token=2, logprob=-math.log(2), top=((0, -math.log(2)),))


def test_tokens_without_probability_are_not_among_the_likeliest():
    found = token_logprob(np.array([-np.inf, 0.0, -np.inf]), 1, 3)
    assert found == TokenLogprob(token=1, logprob=0.0, top=((1, 0.0),))


def test_the_row_is_not_changed():
    logits = np.array([1.0, 2.0])
    token_logprob(logits, 0, 1)
    assert logits.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_law_is_said(bad):
    with pytest.raises(LawError, match="the logits hold NaN or"):
        token_logprob(np.array([0.0, bad]), 0, 1)


def test_nothing_left_is_no_law_either():
    with pytest.raises(LawError, match="the logits hold NaN or"):
        token_logprob(np.full(3, -np.inf), 0, 1)


def test_torch_rows():
    torch = pytest.importorskip("torch")
    logits = np.array([0.5, 2.0, 2.0, -1.0], np.float32)
    assert token_logprob(torch.tensor(logits), 3, 2) == token_logprob(logits, 3, 2)
