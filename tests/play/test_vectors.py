"""The vectors that the playground's core is checked against are what the library computes today."""

from __future__ import annotations

import json
from typing import Any

import pytest

from play.record_vectors import FILES, FOLDER


@pytest.mark.parametrize("name", FILES)
def test_vectors_are_current(name: str) -> None:
    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    where = difference(FILES[name](), recorded, name)
    assert where is None, f"{where}; run python tests/play/record_vectors.py"


def test_no_other_vectors_lie_about() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(FILES)


@pytest.mark.parametrize(
    ("found", "at"),
    [
        ({"a": [1.0, 2.0]}, "x.a.0"),
        ({"a": [1.0]}, "x.a"),
        ({"b": [1.0, 2.1]}, "x"),
        ({"a": ["1", 2.1]}, "x.a.0"),
        ({"a": [1, None]}, "x.a.0"),
    ],
)
def test_difference_finds_what_differs(found: Any, at: str) -> None:
    message = difference(found, {"a": [1.1, 2.1]}, "x")
    assert message is not None
    assert message.startswith(f"{at}: ")


def difference(found: Any, recorded: Any, at: str) -> str | None:
    """Where the two differ by more than rounding, which may depend on the processor."""
    if isinstance(found, dict) and isinstance(recorded, dict) and found.keys() == recorded.keys():
        parts = [(found[key], recorded[key], f"{at}.{key}") for key in found]
    elif isinstance(found, list) and isinstance(recorded, list) and len(found) == len(recorded):
        parts = [(f, r, f"{at}.{i}") for i, (f, r) in enumerate(zip(found, recorded))]
    else:
        numbers = isinstance(found, float | int) and isinstance(recorded, float | int)
        close = numbers and abs(found - recorded) <= 1e-12 * max(1.0, abs(recorded))
        return None if close or found == recorded else f"{at}: {found!r} is not {recorded!r}"
    return next((m for f, r, where in parts if (m := difference(f, r, where))), None)
