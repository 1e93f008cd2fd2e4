"""forerun's own worker, in this process, on a model whose law is known."""

from __future__ import annotations

import pytest

import forerun
from forerun.bench.workers import forerun_engine


def model():
    def next_law(prefix):
        row = [0.02] * 5
        row[(prefix[-1] + 1) % 4] = 0.92
        return row

    return forerun.TabularModel(next_law, vocab_size=5)


@pytest.fixture
def engine(monkeypatch):
    loaded = []
    monkeypatch.setattr(
        forerun_engine, "load_model", lambda name, **o: loaded.append((name, o)) or model()
    )
    made = forerun_engine.Engine("big", "small", threads=2, context=64, backend="hf")
    assert [name for name, _ in loaded] == ["big", "small"]
    assert loaded[0][1] == {"threads": 2, "context": 64, "backend": "hf"}
    return made


ASK = {
    "prompt": [0, 1, 2, 3, 0], "max_tokens": 12, "temperature": 0.0, "top_p": 1.0, "seed": 1,
    "stop_ids": [],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["plain", "suffix", "ngram", "model"])
def test_answers_are_consistent(engine, mode):
    answer = engine.generate(mode=mode, num_draft=None if mode == "plain" else 3, **ASK)
    assert answer["tokens"] == [1, 2, 3, 0] * 3
    moments = [moment for moment, _ in answer["arrivals"]]
    assert moments == sorted(moments)
    assert sum(count for _, count in answer["arrivals"]) == 12
    assert answer["passes"] == len(answer["arrivals"]) - 1
    assert 0 < answer["model_seconds"] <= moments[-1] - moments[0] + 1e-6
    if mode == "plain":
        assert (answer["passes"], answer["drafted"]) == (11, 0)
    else:
        assert answer["passes"] < 11
        assert 0 < answer["accepted"] <= answer["drafted"]


def test_sampling_reaches_the_engine(engine):
    asked = {**ASK, "temperature": 1.0, "top_p": 0.5}
    assert engine.generate(mode="plain", num_draft=None, **asked)["tokens"] == [1, 2, 3, 0] * 3
    texts = {
        tuple(
            engine.generate(mode="plain", num_draft=None, **{**ASK, "temperature": 1.0, "seed": s})[
                "tokens"
            ]
        )
        for s in range(5)
    }
    assert len(texts) > 1


def test_passes_leave_nothing_behind(engine):
    assert len(engine.passes([0, 1, 2, 3], rows=3, times=4)) == 4
    assert engine.prompt([0, 1, 2, 3]) > 0
    slot = engine.target.open()
    assert engine.target.length(slot) == 0


def test_what_control_foretold_is_added_up():
    class Round:
        def __init__(self, tokens, expected=None):
            self.tokens, self.expected = tokens, expected

    expected = type("Expected", (), {"tokens": 2.5, "seconds": 0.5})()
    arrivals = [[0.1, 1], [0.4, 2], [0.6, 1]]
    rounds = [Round((1, 2), expected), Round((3,))]
    told, came = forerun_engine._foretold(rounds, arrivals)
    assert told == [2.5, 0.5]
    assert came == pytest.approx([2, 0.3])
    assert forerun_engine._foretold([Round((1, 2)), Round((3,))], arrivals) is None
