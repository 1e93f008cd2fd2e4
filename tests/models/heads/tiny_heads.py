"""Small heads with random weights, on disk and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forerun.certify.tiny_head import tiny_head
from forerun.models.heads.checkpoint import Head, offsets, read_head, write_head
from forerun.models.heads.config import HeadConfig


def tiny_config(**changes: Any) -> HeadConfig:
    numbers: dict[str, Any] = {
        "hidden": 64, "heads": 2, "kv_heads": 1, "head_width": 32, "feed_forward": 96,
        "vocabulary": 50, "draft_vocabulary": 20, "context": 128, "taps": (1, 0, 2),
        "target": "tiny",
    }  # fmt: skip
    return HeadConfig(**(numbers | changes))


def tiny_tensors(config: HeadConfig, *, layers: int = 1, seed: int = 0) -> dict[str, Any]:
    head = tiny_head(config, layers=layers, seed=seed)
    full = config.draft_vocabulary == config.vocabulary
    return dict(head.tensors) | ({} if full else offsets(head.ids, config.vocabulary))


def stored_head(folder: Path, *, layers: int = 1, seed: int = 0, **changes: Any) -> Head:
    config = tiny_config(**changes)
    write_head(folder, config, tiny_tensors(config, layers=layers, seed=seed))
    return read_head(folder)
