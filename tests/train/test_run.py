"""The whole of a run, on a tiny target and by a clock of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest

from forerun.errors import OptionError
from forerun.models.heads.checkpoint import read_head
from forerun.train import run as running
from forerun.train.run import Run, Wanted
from train import tiny


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def _a_glance(monkeypatch):
    """What is measured by the machine's own clock is measured for an instant."""
    monkeypatch.setattr(running, "_LEAST_MEASURED", 0.01)


class Clock:
    """Seconds that pass by being looked at; more of them, once it trains."""

    def __init__(self, heard=lambda news: None):
        self._seconds, self._step, self._heard = 0.0, 0.02, heard

    def __call__(self):
        self._seconds += self._step
        return self._seconds

    def tell(self, news):
        self._step = 0.5 if news.phase == "training" else 0.02
        self._heard(news)


def run(folder, model, heard=lambda news: None, stopping=lambda: False, **more):
    clock = Clock(heard)
    return Run(
        wanted(folder, **more), model, now=clock, tell=clock.tell, stopping=stopping,
        cache=folder.parent,
    )  # fmt: skip


def wanted(folder, **more):
    return Wanted(**{"minutes": 1.0, "out": folder, "draft_vocab": 32, "layers": (1, 2, 3), **more})


def test_a_run_ends_with_a_head_that_was_judged(model, tmp_path):
    phases = []
    outcome = run(tmp_path / "run", model, lambda news: phases.append(news.phase)).go()
    assert list(dict.fromkeys(phases)) == [
        "held-out texts", "states", "texts", "training", "evaluation", "measurement",
    ]  # fmt: skip
    head = read_head(outcome.head)
    assert head.config.taps == (1, 2, 3)
    assert len(head.ids) == 32
    assert set(model.eos) <= set(head.ids.tolist())
    assert outcome.updates > 2
    for one in outcome.acceptance.values():
        assert 0 <= one.survival[-1] <= one.survival[0] <= 1
    assert {row.drafter for row in outcome.rows} == {"plain", "suffix", "head", "suffix+head"}
    assert all(row.speed > 0 and row.tokens_per_pass >= 1 for row in outcome.rows)


def test_a_run_goes_on_from_a_head(model, tmp_path):
    first = run(tmp_path / "one", model).go()
    model = tiny.target(tmp_path)  # whose states nobody reads yet
    outcome = run(tmp_path / "two", model, start=str(first.head), layers=None).go()
    before, after = read_head(first.head), read_head(outcome.head)
    assert after.ids.tolist() == before.ids.tolist()
    assert after.config == before.config
    assert outcome.updates > 2
    far = np.abs(after["fc.weight"] - before["fc.weight"]).max()
    assert 0 < far < 0.2, "another beginning is farther"
    with pytest.raises(OptionError, match=r"holds a run for .* with start"):
        run(tmp_path / "two", model)


def test_a_narrow_layer(model, tmp_path):
    """It is what is trained, loaded, gone on with; and another run than one of the usual width."""
    first = run(tmp_path / "one", model, feed_forward=32).go()
    assert read_head(first.head).config.feed_forward == 32
    model = tiny.target(tmp_path)
    again = run(tmp_path / "two", model, start=str(first.head), layers=None).go()
    assert read_head(again.head).config.feed_forward == 32
    with pytest.raises(OptionError, match=r"with feed forward 32, not ''"):
        run(tmp_path / "one", model)


def test_a_run_that_was_killed_while_texts_were_written_keeps_them(model, tmp_path):
    folder = tmp_path / "run"

    def kill(news):
        if news.phase == "texts" and (folder / "texts.jsonl").stat().st_size > 0:
            raise Killed

    with pytest.raises(Killed):
        run(folder, model, kill).go()
    before = (folder / "texts.jsonl").read_bytes()
    assert before.count(b"\n") > 0
    with (folder / "texts.jsonl").open("ab") as file:
        file.write(b'{"name": "9')  # a kill in the middle of a line
    again = run(folder, model)
    assert again.resumed
    assert again.go() is not None
    after = (folder / "texts.jsonl").read_bytes()
    assert after.startswith(before)
    names = [json.loads(line)["name"] for line in after.splitlines()]
    assert len(names) == len(set(names))


def test_a_run_that_was_stopped_while_it_trained_goes_on(model, tmp_path):
    folder, seen, told = tmp_path / "run", [], []
    first = run(
        folder, model, seen.append,
        stopping=lambda: bool(seen) and seen[-1].phase == "training" and seen[-1].fraction > 0.3,
    )  # fmt: skip
    assert first.go() is None
    assert (folder / "training.pt").exists()
    assert not (folder / "head").exists()
    assert run(folder, model, told.append).go() is not None
    trained = [news.tokens for news in told if news.phase == "training"]
    assert trained[0] > seen[-1].tokens > 0


def test_a_folder_of_another_run_is_refused(model, tmp_path):
    Run(wanted(tmp_path / "run"), model)
    other = tiny.target(tmp_path, seed=1, name="other.gguf")
    with pytest.raises(OptionError, match=r"holds a run for tiny with target 'tiny', not 'other'"):
        Run(wanted(tmp_path / "run"), other)
    with pytest.raises(OptionError, match=r"with layers \[1, 2, 3\], not \[0, 1\]"):
        Run(wanted(tmp_path / "run", layers=(0, 1)), model)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("Dear")
    with pytest.raises(OptionError, match="files that are not of a training run"):
        Run(wanted(tmp_path / "mine"), model)


def test_chats_that_cannot_be_used_are_told(model, tmp_path, monkeypatch):
    (tmp_path / "long.jsonl").write_text('{"prompt": "%s"}\n' % ("a" * 2000))
    with pytest.raises(OptionError, match="nothing was written to train on: tiny can read none of"):
        run(tmp_path / "run", model, data=tmp_path / "long.jsonl").go()
    monkeypatch.setattr("forerun.train.data._ANSWER", 1)
    (tmp_path / "short.jsonl").write_text('{"prompt": "a"}')
    with pytest.raises(OptionError, match="no answer is long enough to train on"):
        run(tmp_path / "other", model, data=tmp_path / "short.jsonl").go()


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([1.5, 1.5, 1.5], False),
        ([1.5, 1.6, 1.7, 1.71], False),
        ([1.5, 1.5, 1.502, 1.501], True),
        ([1.2, 1.5, 1.4, 1.45, 1.502], True),
        ([1.2, 1.5, 1.4, 1.45, 1.504], False),
    ],
)
def test_gains_are_flat_when_three_looks_bring_next_to_nothing(looks, said):
    assert running.flat(looks) == said
