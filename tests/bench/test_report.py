"""Reports of made-up records."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from bench.test_figures import run as made_run
from forerun.bench import plot, report
from forerun.bench.passes import Passes
from forerun.bench.plan import Plan, Record
from forerun.bench.systems import parse
from forerun.bench.workloads import named
from forerun.errors import MissingExtraError


def record(**changes) -> Record:
    plan = Plan(
        model="big",
        draft_model="small",
        systems=[parse("hf:plain"), parse("hf:suffix")],
        workloads=named(["edit"]),
        samplings=("greedy", "nucleus"),
    )
    runs = [
        made_run(system, repeat, workload="edit", sampling=sampling, seconds=seconds)
        for repeat in range(2)
        for sampling in ("greedy", "nucleus")
        for system, seconds in (("hf:plain", 1.0 + repeat), ("hf:suffix", 0.4 + repeat * 0.1))
    ]
    passes = Passes(
        context=512,
        rows=(1, 4),
        seconds={"hf": {1: [0.01, 0.02, 0.03], 4: [0.05]}, "other": {1: [0.04], 4: [0.025]}},
        prompt_tokens=512,
        prompt_seconds={"hf": [2.0]},
        bandwidth=[10e9, 20e9],
        weight_bytes=100_000_000,
        failures={"third": "it has none"},
    )
    return Record(
        **{
            "plan": plan,
            "complete": True,
            "engines": {"hf": {"version": "1"}},
            "runs": runs,
            "passes": passes,
        }
        | changes
    )


def test_markdown_has_the_figures():
    text = report.to_markdown(record())
    assert "# big, drafts by small" in text
    assert "- hf: 1" in text
    assert "## edit, greedy" in text
    assert "## edit, T = 1, top-p 0.95" in text
    assert "| hf:plain | 7.5 (5.0 to 10.0) | 1.00 |" in text
    assert "| hf:suffix | 22.5 (20.0 to 25.0) | 3.25 (2.50 to 4.00) |" in text
    assert "Memory read: 20.0 GB/s at best; a pass reads 100 MB" in text
    assert "at least 5.0 ms" in text
    assert "| hf | ms | 20.0 (10.0 to 30.0) | 50.0 | 256 tokens/s |" in text
    assert "| hf | × own 1 | 1.00 | 2.50 |" in text
    assert "| other | × hf | 2.00 | 0.50 |" in text
    assert "**third failed:** it has none" in text
    assert "interrupted" not in text
    assert "foretold" not in text  # nothing was: the column is left out


def test_markdown_tells_of_a_busy_machine():
    assert "busy before the run began: a load of 2.5" in report.to_markdown(record(load=2.54))
    assert "busy" not in report.to_markdown(record(load=0.1))


def test_markdown_tells_of_interruption_and_failures():
    text = report.to_markdown(record(interrupted=True, failures={"hf:suffix": "it fell"}))
    assert "**The run was interrupted" in text
    assert "**hf:suffix failed and is left out from there on:** it fell" in text
    assert "has not come to its end" in report.to_markdown(record(complete=False))
    assert "has not come" not in text


def test_json_has_everything(tmp_path):
    report.write(record(interrupted=True), tmp_path / "out")
    kept = json.loads((tmp_path / "out" / report.JSON).read_text())
    assert kept["schema"] == report.SCHEMA
    assert kept["interrupted"] is True
    assert kept["settings"]["systems"] == ["hf:plain", "hf:suffix"]
    assert kept["settings"]["samplings"]["nucleus"] == [1.0, 0.95]
    assert len(kept["runs"]) == 8
    assert kept["summary"][1]["ratio"]["median"] == pytest.approx(3.25)
    assert kept["passes"]["seconds"]["hf"] == {"1": 0.02, "4": 0.05}
    assert kept["passes"]["bound_seconds"] == pytest.approx(0.005)
    assert sorted(f.name for f in (tmp_path / "out").iterdir()) == [report.JSON, report.MARKDOWN]


def test_a_record_of_nothing_is_a_report_too(tmp_path):
    nothing = record(runs=[], passes=None)
    report.write(nothing, tmp_path)
    assert json.loads((tmp_path / report.JSON).read_text())["summary"] == []
    assert plot.draw(nothing, tmp_path) is None


def test_the_picture_shows_systems_and_engines(tmp_path):
    pytest.importorskip("matplotlib")
    path = plot.draw(record(), tmp_path)
    text = path.read_text()
    ElementTree.fromstring(text)
    for name in ("hf:plain", "hf:suffix", "other", "rows of a pass"):
        assert f"<!-- {name} -->" in text


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"forerun\[plots\]"):
        plot.draw(record(), tmp_path)
