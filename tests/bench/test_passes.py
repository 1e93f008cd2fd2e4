"""Costs of passes: who is asked for what in which order, and what comes of the answers."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.bench import passes
from forerun.bench.bandwidth import read_bandwidth
from forerun.bench.passes import measure, rotated, weight_bytes
from forerun.errors import PeerError


class Engine:
    """Answers like a process; `scale` in ms per row."""

    def __init__(self, name, scale, asked, says=True):
        self.name, self.scale, self.asked, self.says = name, scale, asked, says

    def call(self, call, **fields):
        self.asked.append((self.name, call, fields.get("rows")))
        if self.scale is None:
            raise PeerError(f"{self.name} is broken")
        if not self.says:
            return None
        if call == "prompt":
            return 0.25
        return [9.0] + [self.scale * fields["rows"] / 1e3] * (fields["times"] - 1)


def measured(engines, **options):
    kept = []
    made = measure(
        engines, ids=[1, 2, 3], repeats=2, threads=1, weight_bytes=1000, into=kept.append,
        rows=(1, 4), bandwidth=lambda threads: [1e6, 2e6], **options,
    )  # fmt: skip
    return made, kept


def test_engines_take_turns_and_the_first_time_does_not_count():
    asked = []
    made, kept = measured({"a": Engine("a", 1.0, asked), "b": Engine("b", 3.0, asked)})
    assert [name for name, *_ in asked[:6]] == ["a", "b", "b", "a", "a", "b"]
    assert {call for _, call, _ in asked[:2]} == {"prompt"}
    assert made.figure("a", 4).high == pytest.approx(0.004)
    assert made.figure("b", 1).median == pytest.approx(0.003)
    assert len(made.seconds["a"][1]) == 2 * (passes.TIMES - 1)
    assert made.prompt_seconds["b"] == [0.25, 0.25]
    assert made.bound == pytest.approx(1000 / 2e6)
    assert len(kept) == 2
    assert made.to_dict()["seconds"]["a"] == {"1": 0.001, "4": 0.004}


def test_engines_that_fail_or_do_not_say_are_left_out():
    asked = []
    engines = {
        "a": Engine("a", 1.0, asked),
        "silent": Engine("silent", 1.0, asked, says=False),
        "broken": Engine("broken", None, asked),
    }
    made, _ = measured(engines)
    assert list(made.seconds) == ["a"]
    assert made.failures == {"broken": "broken is broken"}
    assert [name for name, *_ in asked].count("broken") == 1


def test_rotated():
    assert rotated(["a", "b", "c"], 4) == ["b", "c", "a"]
    assert rotated([], 3) == []


def test_bandwidth_is_positive_for_any_number_of_threads():
    for threads in (1, 3):
        rates = read_bandwidth(threads, size=1 << 16, repeats=2)
        assert len(rates) == 2
        assert np.isfinite(rates).all()
        assert min(rates) > 0


def test_weights_that_a_pass_reads(tmp_path, monkeypatch):
    assert weight_bytes(tmp_path / "none.gguf") is None

    class File:
        def __init__(self, **sizes):
            self.tensors = {n: type("T", (), {"name": n, "size": s})() for n, s in sizes.items()}

    sizes = {"token_embd.weight": 100, "blk.0.ffn_up.weight": 10}
    monkeypatch.setattr(passes, "read_gguf", lambda path: File(**sizes))
    assert weight_bytes("tied") == 110
    sizes["output.weight"] = 50
    assert weight_bytes("untied") == 60
