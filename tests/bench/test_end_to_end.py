"""A whole run on a small file: real processes, the native backend, and real text."""

from __future__ import annotations

import pytest

from forerun import clib
from forerun.bench.plan import Plan
from forerun.bench.runner import run
from forerun.bench.systems import parse
from forerun.bench.workloads import named
from models.tiny_gguf import write


@pytest.mark.skipif(clib.library() is None, reason="needs the compiled library")
def test_native_systems_write_the_same_text(tmp_path, data, monkeypatch):
    monkeypatch.setattr("forerun.bench.passes.read_bandwidth", lambda threads, repeats: [1e9])
    model = write(tmp_path / "tiny.gguf", context=1024, vocabulary=300, tokenizer=True)
    systems = [parse(f"native:{mode}") for mode in ("plain", "suffix@3", "suffix+model")]
    record = run(
        Plan(
            model=str(model),
            draft_model=str(model),
            systems=systems,
            workloads=named(["chat"]),
            samplings=("greedy", "nucleus"),
            repeats=1,
            items=2,
            max_tokens=16,
            passes=True,
            data=data,
            cache=tmp_path / "cache",
        )
    )
    assert record.failures == {}
    assert record.complete
    assert len(record.runs) == 12
    for item in {(r.sampling, r.item) for r in record.runs}:
        found = [r for r in record.runs if (r.sampling, r.item) == item]
        assert len({r.digest for r in found}) == 1
        assert found[0].tokens > 0
    assert sum(r.drafted for r in record.runs) > 0
    assert list((tmp_path / "cache" / "costs").iterdir())  # those of `auto`
    assert record.passes.figure("native", 16) is not None
    assert record.passes.weight_bytes < model.stat().st_size
