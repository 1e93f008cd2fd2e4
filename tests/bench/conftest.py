from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from forerun.bench import systems
from forerun.bench.systems import Engine
from forerun.bench.workloads import WORKLOADS
from text import tiny

FAKE = Path(__file__).with_name("fake_engine.py")


def fake(name="fake", **settings) -> Engine:
    return Engine(
        name=name,
        what="made up",
        modes=("plain", "fast", "fail", "die", "slow"),
        draft_modes=frozenset({"fast"} if settings.pop("drafts", False) else ()),
        worker=str(FAKE),
        settings=settings,
    )


@pytest.fixture
def engines(monkeypatch, tmp_path):
    """Engines `fake`, `other` (passes three times as slow) and `broken`; what `fake` was asked for
    is in the journal."""
    journal = tmp_path / "journal"
    made = {
        "fake": fake(journal=str(journal)),
        "other": fake("other", scale=3),
        "broken": fake("broken", broken=True),
        "drafting": fake("drafting", drafts=True),
    }
    monkeypatch.setattr(systems, "ENGINES", made)
    monkeypatch.setattr("forerun.cli.bench.ENGINES", made)
    return journal


@pytest.fixture
def model(monkeypatch):
    """`find` gives a small tokenizer, and a path that nobody opens."""
    found = (Path("nowhere.gguf"), tiny.tokenizer())
    monkeypatch.setattr("forerun.bench.runner.find", lambda name, **options: found)
    return found


@pytest.fixture
def data(tmp_path) -> Path:
    """A folder of texts, laid out as the packages are."""
    root = tmp_path / "data"
    tasks = [
        {
            "task_id": f"HumanEval/{i}",
            "prompt": f"def f{i}(x):\n",
            "entry_point": f"f{i}",
            "canonical_solution": f"    return x + {i}\n",
        }
        for i in range(9)
    ]
    lines = "\n".join(json.dumps(task) for task in tasks)
    files = {
        "code": gzip.compress(lines.encode()),
        "chat": "\n".join(
            json.dumps({"question_id": i, "category": "c", "turns": [f"Why {i}?", "And?"]})
            for i in range(5)
        ).encode(),
        "summary": b"First news.\nSecond news.\n\nThird news.\n",
    }
    for name, content in files.items():
        place = root / WORKLOADS[name].file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return root
