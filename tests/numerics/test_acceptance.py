from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forerun.numerics.acceptance import acceptance, excess, residual, total_variation

weights = arrays(np.float64, 5, elements=st.floats(0, 1).map(lambda x: 0.0 if x < 0.1 else x))
laws = weights.filter(lambda w: w.sum() > 0).map(lambda w: w / w.sum())


@settings(max_examples=300, deadline=None)
@given(laws, laws)
def test_both_ways_to_emit_a_token_sum_to_p(p, q):
    """Σ q·a + β·residual = p: the proof of Leviathan et al., appendix A.1, in numbers."""
    a = np.array([acceptance(p, q, x) for x in range(5)])
    beta = 1 - float((q * a).sum())
    assert beta == pytest.approx(total_variation(p, q), abs=1e-12)
    emitted = q * a + (beta * residual(p, q, 0) if beta > 1e-12 else 0)
    assert emitted == pytest.approx(p, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(laws, st.integers(0, 4))
def test_a_point_mass_is_its_one_hot_law(p, x):
    one_hot = np.eye(5)[x]
    assert acceptance(p, None, x) == acceptance(p, one_hot, x) == p[x]
    assert residual(p, None, x) == pytest.approx(residual(p, one_hot, x), abs=1e-15)
    for scale in (0.25, 1.0):
        assert excess(p, None, x, scale) == pytest.approx(excess(p, one_hot, x, scale), abs=1e-15)


def test_a_token_with_p_zero_is_never_accepted():
    p, q = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    assert acceptance(p, q, 0) == 0
    assert acceptance(p, None, 0) == 0
    assert acceptance(p, np.zeros(2), 0) == 0  # both underflowed


def test_ids_beyond_a_shorter_vocabulary_have_no_mass():
    assert acceptance(np.array([0.5, 0.5]), None, 7) == 0
    assert residual(np.array([0.5, 0.5]), None, 7).tolist() == [0.5, 0.5]


def test_equal_laws_leave_no_residual_and_fall_back_to_p():
    p = np.array([0.25, 0.75])
    assert acceptance(p, p, 0) == 1
    assert residual(p, p, 0).tolist() == p.tolist()


def test_draft_and_target_may_live_in_different_libraries():
    p, q = torch.tensor([0.6, 0.4]), np.array([0.8, 0.2])
    assert np.asarray(residual(p, q, 0)).tolist() == [0, 1]
    assert total_variation(p, q) == pytest.approx(0.2, abs=1e-7)
    assert excess(p, q, 0, 0.5) == pytest.approx(0.0, abs=1e-7)


def test_block_scale():
    p, q = np.array([0.6, 0.4]), np.array([0.2, 0.8])
    assert excess(p, q, 0, 0.5) == pytest.approx(0.1)
    assert residual(p, q, 0, 0.5).tolist() == [1, 0]


def test_the_first_correction_imports_nothing():
    """A whole batch would wait for it: what it needs of the array API takes 0.1 s to import."""
    code = """
import sys
import numpy as np
import forerun
from forerun.numerics.acceptance import residual
before = set(sys.modules)
residual(np.array([0.5, 0.5]), np.array([0.9, 0.1]), 0)
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
