"""What tests of batches share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forerun.batch import Batch, Desk, Identity, Output, Source, Tally, Terms

RUN = Identity(input="0123456789abcdef", options="fedcba9876543210")
OTHER_INPUT = Identity(input="0" * 16, options=RUN.options)
OTHER_OPTIONS = Identity(input=RUN.input, options="0" * 16)


def written(path: Path, *lines: Any) -> Path:
    """A file of these lines: bytes as they are, anything else as JSON."""
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in raw))
    return path


def record(number: int, run: Identity = RUN, **more: Any) -> bytes:
    """One that a run could have written."""
    found = {
        "id": f"batch_req_{run}_{number}",
        "line": number,
        "response": {"status_code": 200, "body": {"system_fingerprint": "forerun-0-x"}},
        "error": None,
        **more,
    }
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"


def terms(run: Identity = RUN, max_tokens: int = 12) -> Terms:
    return Terms(run=run, models=("tiny",), max_tokens=max_tokens, seed="s")


def answers(path: Path) -> dict[int, dict[str, Any]]:
    """Records by number; each must be there once."""
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    found = [json.loads(line) for line in lines]
    by_number = {one["line"]: one for one in found}
    assert len(by_number) == len(found)
    return by_number


def same(one: dict[int, dict], other: dict[int, dict]) -> bool:
    """Whether two runs gave the same answers. When they were made, and what guesses were worth,
    may differ."""
    return {n: _lasting(r) for n, r in one.items()} == {n: _lasting(r) for n, r in other.items()}


def _lasting(record: dict[str, Any]) -> dict[str, Any]:
    copy = json.loads(json.dumps(record))
    body = (copy["response"] or {}).get("body", {})
    for name in ("created", "metrics"):
        body.pop(name, None)
    body.get("usage", {}).pop("prompt_tokens_details", None)
    return copy


def run_batch(engine: Any, source: Path, out: Path, **options: Any) -> Tally:
    """All lines of a file; what it came to."""
    with Source(source) as lines, Output(out, RUN, lines.last) as output:
        work = Batch(engine, Desk(engine, terms()), lines, output, **options)
        assert work.run(lines.order())
    return work.tally
