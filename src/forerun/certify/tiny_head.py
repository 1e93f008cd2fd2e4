"""Heads with random weights, in memory: for proofs with tabular targets, and for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forerun.models.heads.checkpoint import Head, Vocabularies, shapes
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.mlp_checkpoint import MLPConfig, MLPHead


def tiny_head(config: HeadConfig, *, layers: int = 1, seed: int = 0) -> Head:
    """Its laws are far from flat, and depend on all that it reads."""
    taps = 3 if config.taps is None else len(config.taps)
    tensors, ids = _drawn(config, shapes(config, layers, taps), seed)
    return Head(path=Path("tiny-head"), config=config, layers=layers, ids=ids, tensors=tensors)


def tiny_mlp_head(config: MLPConfig, *, seed: int = 0) -> MLPHead:
    tensors, ids = _drawn(config, config.shapes(), seed)
    return MLPHead(path=Path("tiny-head"), config=config, ids=ids, tensors=tensors)


def _drawn(
    config: Vocabularies, shapes: Mapping[str, tuple[int, ...]], seed: int
) -> tuple[dict[str, Any], Any]:
    dice = np.random.default_rng([seed, config.vocabulary])
    tensors = {}
    for name, shape in shapes.items():
        drawn = dice.standard_normal(shape, dtype=np.float32)
        tensors[name] = 1 + 0.1 * drawn if len(shape) == 1 else 2 * drawn / shape[1] ** 0.5
        if name.endswith(".bias"):
            tensors[name] = drawn
    ids = np.sort(dice.permutation(config.vocabulary)[: config.draft_vocabulary])
    return tensors, ids
