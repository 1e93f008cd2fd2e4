"""Small files of every architecture that the kernels run, and texts read from them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forerun import clib
from forerun.models.base import Step
from forerun.models.native import kernels
from forerun.models.native.model import NativeModel
from models.tiny_gguf import Q4_K_M, Q4_K_M_NARROW, write

PATHS = kernels.paths() if clib.library() is not None else ()
TEXT = tuple(random.Random(3).choices(range(23), k=210))

WIDE = {"hidden": 256, "feed_forward": 256, "layers": 2}
MIXED = {"attn": "Q4_1", "ffn_gate": "F16", "ffn_down": "Q5_0", "": "Q8_0"}
CASES: dict[str, dict[str, Any]] = {
    "llama": {"architecture": "llama", "types": Q4_K_M, "tied": False, **WIDE},
    "mistral": {"architecture": "llama", "window": 70, "types": "Q4_0", "heads": 2, "kv_heads": 1},
    "qwen2": {"architecture": "qwen2", "types": Q4_K_M_NARROW, "heads": 2, "kv_heads": 2},
    "qwen3": {"architecture": "qwen3", "types": MIXED, "heads": 6, "kv_heads": 2, "layers": 2},
    "gemma3": {
        "architecture": "gemma3",
        "types": {"attn": "BF16", "": "Q5_K"},
        "window": 5,
        **WIDE,
    },
}


def file(folder: Path, case: str, **changes: Any) -> Path:
    return write(folder / f"{case}.gguf", **{"context": 400, **CASES[case], **changes})


def load(path: Path, kernels: str | None = None, threads: int = 1, **options: Any) -> NativeModel:
    return NativeModel(path, kernels=kernels, threads=threads, **options)


def decoded(model: NativeModel, tokens: Sequence[int], slot: int | None = None) -> np.ndarray:
    """The row after each token, by plain decoding: one token a pass."""
    own = model.open() if slot is None else slot
    rows = [model.extend([Step(slot=own, tokens=(token,))])[0][0] for token in tokens]
    if slot is None:
        model.close(own)
    return np.stack(rows)


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.dtype == theirs.dtype == np.float32
    np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))
