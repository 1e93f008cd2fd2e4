"""Recorded answers as texts: what a line must hold, and what a run makes of them."""

from __future__ import annotations

import dataclasses
import json

import pytest

from forerun import Engine
from forerun.cli.report import as_dict
from forerun.errors import OptionError
from forerun.train import run as running
from forerun.train.from_traces import read_answers
from forerun.train.run import Run

from . import tiny
from .test_run import Clock, wanted


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.target(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def lines(model):
    """As `forerun generate --json` writes them."""
    with Engine(model, "suffix") as engine:
        asked = [engine.generate([5 + i, 7, 9], seed=i, max_tokens=30) for i in range(4)]
    return [json.dumps(as_dict(done), ensure_ascii=False) for done in asked]


@pytest.fixture
def file(tmp_path, lines):
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_a_text_for_each_answer(file, lines, model):
    found = read_answers([file, file], model)
    assert len(found) == len(lines), "the second time they are known"
    for text, line in zip(found, map(json.loads, lines)):
        assert list(text.ids) == line["prompt"] + line["tokens"]
        assert text.spans == ((3, len(text.ids)),)
    assert len({text.name for text in found}) == len(found)
    assert read_answers([], model) == []


def test_rounds_alone_do_not_hold_the_prompt(tmp_path, lines, model):
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, json.loads(lines[0])["trace"])))
    with pytest.raises(OptionError, match=r"line 1: a round of --trace does not say .* --json"):
        read_answers([path], model)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line | {"prompt": "text"}, "'prompt' is no list of token ids"),
        (lambda line: {"tokens": [1]}, "'prompt' is no list of token ids"),
        (lambda line: line | {"tokens": [1.5]}, "'tokens' is no list of token ids"),
        (lambda line: line | {"tokens": [64]}, "token id 64 is not in the vocabulary of tiny"),
        (lambda line: line | {"prompt": [5] * 600}, "the context is 512"),
        (lambda line: line | {"text": "Bonjour"}, "another model wrote it"),
        (lambda line: [line], "'prompt' is no list of token ids"),
        (lambda line: line | {"tokens": [], "text": ""}, "there is no answer to train on"),
    ],
)
def test_a_line_that_is_none(tmp_path, lines, model, change, says):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(change(json.loads(lines[0]))))
    with pytest.raises(OptionError, match=says):
        read_answers([path], model)


@pytest.mark.parametrize("content", [b"{", b"\xff\xff", b""])
def test_a_file_that_is_none(tmp_path, model, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(OptionError, match="--from-traces"):
        read_answers([tmp_path / "a"], model)
    with pytest.raises(OptionError, match="cannot be read: no such file"):
        read_answers([tmp_path / "b"], model)


def test_a_run_trains_on_them_alone(file, lines, model, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_LEAST_MEASURED", 0.01)
    folder, judging = tmp_path / "run", tmp_path / "eval.jsonl"
    judging.write_text('{"prompt": "ab"}\n{"prompt": "cd"}\n')
    asked = dataclasses.replace(wanted(folder), recorded=(file,), evaluation=judging)
    clock = Clock()
    outcome = Run(asked, model, now=clock, tell=clock.tell, cache=tmp_path).go()
    assert outcome is not None
    assert outcome.texts == len(lines)
    texts = (folder / "texts.jsonl").read_text().splitlines()
    names = [json.loads(line)["name"] for line in texts]
    assert names == [f"recorded {i}" for i in range(len(lines))]
    with pytest.raises(OptionError, match="holds a run for tiny with data"):
        Run(dataclasses.replace(asked, recorded=()), model)
