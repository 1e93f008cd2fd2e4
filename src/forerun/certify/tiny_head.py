"""A head with random weights, in memory: for proofs with tabular targets, and for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forerun.models.heads.checkpoint import Head, shapes
from forerun.models.heads.config import HeadConfig


def tiny_head(config: HeadConfig, *, layers: int = 1, seed: int = 0) -> Head:
    """Its laws are far from flat, and depend on all that it reads."""
    dice = np.random.default_rng([seed, config.vocabulary])
    taps = 3 if config.taps is None else len(config.taps)
    tensors = {}
    for name, shape in shapes(config, layers, taps).items():
        drawn = dice.standard_normal(shape, dtype=np.float32)
        tensors[name] = 1 + 0.1 * drawn if len(shape) == 1 else 2 * drawn / shape[1] ** 0.5
        if name.endswith(".bias"):
            tensors[name] = drawn
    ids = np.sort(dice.permutation(config.vocabulary)[: config.draft_vocabulary])
    return Head(path=Path("tiny-head"), config=config, layers=layers, ids=ids, tensors=tensors)
