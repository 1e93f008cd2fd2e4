"""Heads that come with forerun, found by the target they were trained on.

    shipped(model)      the folder of its head, or None

What a head was trained on is known by its fingerprint, so that a model has its head under any name
and from any file. docs/heads.md says how each was made.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from forerun.models.heads.checkpoint import CONFIG

FOLDER = Path(__file__).parent / "checkpoints"


def shipped(model: Any) -> Path | None:
    if not model.abilities.features:
        return None
    heads = _by_fingerprint(FOLDER)
    return heads.get(model.fingerprint) if heads else None


@cache
def _by_fingerprint(folder: Path) -> dict[str, Path]:
    found = {}
    for config in sorted(folder.glob(f"*/{CONFIG}")):
        fingerprint = json.loads(config.read_text())["forerun"]["fingerprint"]
        found[fingerprint] = config.parent
    return found
