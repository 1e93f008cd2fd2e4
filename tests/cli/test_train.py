"""`forerun train`: what is refused, and what is said at the end. The run itself: tests/train."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from forerun.train import run as running
from forerun.train.data import News
from forerun.train.evaluate import Acceptance
from forerun.train.measure import Row
from train import tiny

DRAFTERS = ("plain", "suffix", "head", "suffix+head")


@pytest.fixture
def target(tmp_path):
    tiny.target(tmp_path)
    return str(tmp_path / "tiny.gguf")


class Pretended:
    """A run that is over at once, or was stopped."""

    resumed = True
    outcome: running.Outcome | None = None

    def __init__(self, wanted, model, *, tell, stopping, cache):
        self.wanted, self.tell = wanted, tell

    def go(self):
        Pretended.wanted_last = self.wanted
        told = {"greedy": Acceptance(survival=(0.5, 0.25), tokens=9)}
        self.tell(News(phase="texts", fraction=0.5, tokens=10, left=90.0))
        self.tell(News(phase="training", fraction=0.5, left=60.0, acceptance=told))
        return self.outcome


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    monkeypatch.setattr(running, "Run", Pretended)
    (tmp_path / "run").mkdir()
    Pretended.outcome = running.Outcome(
        head=tmp_path / "run" / "head",
        acceptance={"greedy": Acceptance(survival=(0.5, 0.25), tokens=9)},
        texts=3, tokens=1234, updates=56, epochs=7.25,
        rows=[
            Row(drafter=d, sampling=s, tokens=100 * i, seconds=10.0, fixed_tokens=20 + i,
                fixed_passes=10)
            for s in ("greedy", "T = 1") for i, d in enumerate(DRAFTERS, start=1)
        ],
    )  # fmt: skip
    return tmp_path / "run"


def test_the_end_is_a_table_and_a_plain_word(cli, target, pretended):
    result = cli("train", target, "-o", pretended)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["HELD", "OUT", "DEPTH", "1", "DEPTH", "2", "TOKENS", "A", "PASS"]
    assert lines[1].split() == ["greedy", "0.500", "0.500", "1.75"]
    assert ["greedy", "suffix+head", "2.40", "40.0", "4.00"] in [line.split() for line in lines]
    assert "greedy: use it as suffix+head: 4.00 times as fast as plain decoding" in result.out
    assert "trained on 3 texts, 1,234 tokens, 7.2 times, in 56 updates" in result.out
    assert "goes on where it was" in result.err
    assert "texts 50% · 1.5 minutes left" in result.err
    assert "training 50% · 1.0 minutes left · greedy 0.50 0.50" in result.err


def test_json_is_the_report(cli, target, pretended):
    result = cli("train", target, "-o", pretended, "--json")
    told = json.loads(result.out)
    assert told == json.loads((pretended / "report.json").read_text())
    assert told["acceptance"]["greedy"]["by_depth"] == [0.5, 0.5]
    assert told["measured"][3] == {
        "drafter": "suffix+head", "sampling": "greedy", "tokens": 400, "tokens_per_second": 40.0,
        "tokens_per_pass_of_4": 2.4,
    }  # fmt: skip


def test_stopped_it_says_how_to_go_on(cli, target, pretended):
    Pretended.outcome = None
    result = cli("train", target, "-o", pretended)
    assert result.code == 130
    assert f"stopped; the same command goes on with {pretended}" in result.err


def test_options_reach_the_run(cli, target, pretended):
    cli("train", target, "-o", pretended, "--layers", "0,2", "--draft-vocab", "9", "--seed", "4",
        "--feed-forward", "64", "--minutes", "2.5", "-t", "1")  # fmt: skip
    wanted = Pretended.wanted_last
    assert (wanted.layers, wanted.draft_vocab, wanted.seed) == ((0, 2), 9, 4)
    assert wanted.feed_forward == 64
    assert (wanted.minutes, wanted.threads, wanted.out) == (2.5, 1, pretended)
    assert (wanted.form, wanted.start) == ("eagle3", None)
    cli("train", target, "-o", pretended, "--from", "a-head")
    assert Pretended.wanted_last.start == "a-head"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--minutes", "0.5"], "--minutes must be at least 1, not 0.5"),
        (["--minutes", "nan"], "--minutes must be at least 1, not nan"),
        (["--draft-vocab", "0"], "--draft-vocab must be at least 1, not 0"),
        (["--layers", "two"], "--layers takes numbers such as 2,15,27, not 'two'"),
        (["--layers", "0,9"], "--layers are from 0 to 4, not 9"),
        (["--from", "shipped"], "--from shipped: no head for"),
        (["--from", "nowhere"], "nowhere: no config.json there: not a head's folder"),
        (["--from", "head", "--form", "hydra"], "--form is settled by the head that --from names"),
        (["--from", "head", "--layers", "2"], "--layers is settled by the head that --from names"),
        (["--feed-forward", "100"], "--feed-forward is a multiple of 32, not 100"),
        (["--feed-forward", "0"], "--feed-forward is a multiple of 32, not 0"),
        (
            ["--feed-forward", "64", "--form", "hydra"],
            "--feed-forward goes with --form eagle3, not hydra",
        ),
        (
            ["--from", "head", "--feed-forward", "64"],
            "--feed-forward is settled by the head that --from names",
        ),
        (["--threads", "0"], "threads must be a whole number from 1 to"),
    ],
)
def test_what_cannot_be_is_refused(cli, target, tmp_path, options, said):
    result = cli("train", target, "-o", tmp_path / "run", *options)
    assert result.code == 2
    assert said in result.err
    assert len(result.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_bad_line_is_named(cli, target, tmp_path):
    (tmp_path / "chats.jsonl").write_text('{"prompt": "a"}\n{"prompt"}\n')
    result = cli("train", target, "-o", tmp_path / "run", "--data", tmp_path / "chats.jsonl")
    assert result.code == 2
    assert "chats.jsonl, line 2 is not valid JSON" in result.err


def test_without_torch_the_extra_is_named(target, tmp_path):
    """In a process of its own: modules that are loaded anew would not be those of other tests."""
    script = (
        "import sys; sys.modules['torch'] = None; from forerun.cli.app import run;"
        f"sys.exit(run(['train', {str(target)!r}, '-o', {str(tmp_path / 'run')!r}]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 2
    assert found.stderr == "forerun: forerun train needs torch: pip install 'forerun[train]'\n"
