"""Small heads with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from forerun.models.heads.checkpoint import Head, offsets, read_head, shapes, write_head
from forerun.models.heads.config import HeadConfig


def tiny_config(**changes: Any) -> HeadConfig:
    numbers: dict[str, Any] = {
        "hidden": 64, "heads": 2, "kv_heads": 1, "head_width": 32, "feed_forward": 96,
        "vocabulary": 50, "draft_vocabulary": 20, "context": 128, "taps": (1, 0, 2),
        "target": "tiny",
    }  # fmt: skip
    return HeadConfig(**(numbers | changes))


def tiny_tensors(config: HeadConfig, *, layers: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    """Of a head whose features and logits have a size that matters."""
    dice = np.random.default_rng(seed)
    taps = 3 if config.taps is None else len(config.taps)
    found = {}
    for name, shape in shapes(config, layers, taps).items():
        size = 1.0 if len(shape) == 1 else 2.0 / np.sqrt(shape[1])
        found[name] = (
            1 + 0.1 * dice.normal(size=shape) if size == 1.0 else (size * dice.normal(size=shape))
        )
    if config.draft_vocabulary < config.vocabulary:
        ids = np.sort(dice.permutation(config.vocabulary)[: config.draft_vocabulary])
        found |= offsets(ids, config.vocabulary)
    return found


def tiny_head(folder: Path, *, layers: int = 1, seed: int = 0, **changes: Any) -> Head:
    config = tiny_config(**changes)
    write_head(folder, config, tiny_tensors(config, layers=layers, seed=seed))
    return read_head(folder)
