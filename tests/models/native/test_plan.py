"""Passes in C against the same graph in float64: a wrong norm, turn or scale is a large difference.

With float weights nothing is rounded but float32 sums and the caches' half floats; the tests round
the reference's caches likewise, so that little is left. With quantised weights activations are
rounded to 8 bits, and laws stay near the reference's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from forerun import clib
from forerun.models.base import Step
from forerun.models.gguf import read_gguf
from forerun.models.native import plan
from forerun.models.native.hyperparameters import read_hyperparameters
from forerun.models.native.reference import Reference
from forerun.models.native.rows import lay_out
from models.native.small import CASES, PATHS, TEXT
from models.tiny_gguf import write

pytestmark = pytest.mark.skipif(clib.library() is None, reason="the C library was not built")

LENGTH = 90  # past a page, and past every window
TWO: dict[str, Any] = {"heads": 2, "kv_heads": 1}
FLOATS: dict[str, dict[str, Any]] = {
    "llama": TWO,
    "llama-untied-biased": {**TWO, "tied": False, "bias": True},
    "llama-bf16": {**TWO, "types": "BF16"},
    "llama-f16-in-part": {**TWO, "types": {"attn": "F16", "": "F32"}},
    "wide-heads": {"heads": 1, "kv_heads": 1, "head_width": 96},
    "three-to-a-key": {"heads": 6, "kv_heads": 2, "head_width": 32},
    "five-to-a-key": {"heads": 5, "kv_heads": 1, "head_width": 32},
    "odd-sizes": {**TWO, "hidden": 72, "head_width": 32, "feed_forward": 100, "vocabulary": 41},
    "a-part-turns": {**TWO, "metadata": {"rope.dimension_count": 8}},
    "stretched": {
        **TWO,
        "metadata": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    },
    "factors": {**TWO, "tensors": {"rope_freqs.weight": np.linspace(1, 9, 16, dtype=np.float32)}},
    "mistral": {**TWO, "window": 70},
    "qwen2": {**TWO, "architecture": "qwen2"},
    "qwen3": {**TWO, "architecture": "qwen3"},
    "gemma3": {"architecture": "gemma3", "layers": 7},
    "gemma3-periods": {"architecture": "gemma3", "layers": 4, "period": 2, "window": 20},
}


def reference(path: Any, changed: Any = None) -> np.ndarray:
    file = read_gguf(path)
    h = read_hyperparameters(file)
    made = Reference(file, h if changed is None else changed(h), dtype=np.float64)
    made.reserve(0, LENGTH)
    made._caches[0] = np.zeros_like(made._caches[0], dtype=np.float16)
    rows = [
        made.run(lay_out([Step(slot=0, tokens=(t,))], [i])) for i, t in enumerate(TEXT[:LENGTH])
    ]
    return np.concatenate(rows)


def kernels(path: Any, name: str = "") -> np.ndarray:
    file = read_gguf(path)
    made = plan.Plan(file, read_hyperparameters(file), threads=1, path=name or PATHS[0])
    made.reserve(0, LENGTH)
    return made.run(lay_out([Step(slot=0, tokens=TEXT[:LENGTH])], [0]))


def far(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def divergence(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Mean KL divergence of laws from the reference's."""

    def log_law(rows: np.ndarray) -> np.ndarray:
        rows = rows.astype(np.float64)
        rows = rows - rows.max(axis=1, keepdims=True)
        return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))

    p, q = log_law(theirs), log_law(ours)
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


@pytest.mark.parametrize("case", FLOATS)
def test_float_weights(case, tmp_path):
    path = write(tmp_path / "a.gguf", **FLOATS[case])
    ours, theirs = kernels(path), reference(path)
    # a value near the middle of two halves may be rounded to either: so not all rows are so near
    assert far(ours[:3], theirs[:3]) < 2e-4
    assert np.median(np.abs(ours - theirs)) < 3e-5 * np.abs(theirs).max()
    assert divergence(ours, theirs) < 1e-7


@pytest.mark.parametrize("case", CASES)
def test_quantised_weights(case, tmp_path):
    path = write(tmp_path / "a.gguf", **{"context": 128, "size": 1.0, **CASES[case]})
    assert 1e-9 < divergence(kernels(path), reference(path)) < 2e-3


CHANGES: dict[str, Any] = {
    "epsilon": lambda h: {"epsilon": h.epsilon + 2e-4},
    "base": lambda h: {"rotation": dataclasses.replace(h.rotation, base=h.rotation.base * 1.001)},
    "pairs": lambda h: {
        "rotation": dataclasses.replace(h.rotation, interleaved=not h.rotation.interleaved)
    },
    "stretch": lambda h: {"rotation": dataclasses.replace(h.rotation, scale=1.001)},
    "scale": lambda h: {"attention_scale": h.attention_scale * 1.001},
    "window": lambda h: {"window": 30},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_slightly_different_graph_is_found(change, tmp_path):
    """What the bounds above are worth."""
    path = write(tmp_path / "a.gguf", window=31 if change == "window" else None, **TWO)
    theirs = reference(path, lambda h: dataclasses.replace(h, **CHANGES[change](h)))
    ours = kernels(path)
    assert np.median(np.abs(ours - theirs)[31:]) > 3e-5 * np.abs(theirs).max()
    assert divergence(ours, theirs) > 1e-7


def test_large_and_small_gates(tmp_path):
    """SiLU and GELU far out, where e^x would overflow: their limits, not NaN."""
    for architecture in ("llama", "gemma3"):
        big = np.zeros((96, 64), dtype=np.float32)
        big[:48], big[48:] = 100, -100
        path = write(
            tmp_path / "a.gguf", architecture, layers=2, tensors={"blk.0.ffn_gate.weight": big},
            heads=2, kv_heads=1,
        )  # fmt: skip
        ours, theirs = kernels(path), reference(path)
        assert np.isfinite(ours).all()
        assert divergence(ours, theirs) < 1e-4
