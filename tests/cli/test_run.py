"""`forerun run` as a process: killed and gone on with, stopped, refused."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time

import pytest

from batch.fakes import answers, same, written

from .conftest import FAKE

LINES = [{"prompt": f"the {i}", "max_tokens": 5 + i % 9} for i in range(60)]
DEATHS = 4
SLOW = ("-m", "fake:slow=0.02")


@pytest.fixture
def source(tmp_path):
    return written(tmp_path / "in.jsonl", *LINES, b"no", {"prompt": "x", "top_p": 3})


def start(*args, **pipes):
    return subprocess.Popen([sys.executable, FAKE, "run", *map(str, args)], **pipes)


def size(path):
    return path.stat().st_size if path.exists() else 0


def test_killed_at_random_moments(source, tmp_path, process):
    """Processes are killed with SIGKILL soon after they have written something; in the end no line
    is lost, doubled or torn, and the answers are those of a run that nobody killed."""
    dice, out = random.Random(5), tmp_path / "out.jsonl"
    deaths = 0
    while deaths < DEATHS:
        before, running = size(out), start(source, "-o", out, *SLOW, stderr=subprocess.DEVNULL)
        while running.poll() is None and size(out) == before:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.1))
        running.kill()
        if running.wait() != -signal.SIGKILL:
            break  # it was done first
        deaths += 1
        if dice.random() < 0.5:  # a death of the machine may tear the last record, too
            data = out.read_bytes()
            out.write_bytes(data[: -dice.randrange(1, 200)] + bytes(dice.randrange(3)))
    assert deaths
    assert process("run", str(source), "-o", str(out), *SLOW).returncode == 1  # two are errors
    assert process("run", str(source), "-o", str(tmp_path / "whole"), *SLOW).returncode == 1
    found = answers(out)
    assert sorted(found) == list(range(1, len(LINES) + 3))
    assert same(found, answers(tmp_path / "whole"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains(source, tmp_path, process, number):
    out = tmp_path / "out.jsonl"
    args = (source, "-o", out, *SLOW, "-v")
    running = start(*args, stderr=subprocess.PIPE, text=True)
    while not size(out):
        time.sleep(0.005)
    running.send_signal(number)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    done = len(answers(out))
    assert 0 < done < len(LINES)
    assert f"{len(LINES) + 2 - done} lines left: the same command goes on from here" in said
    assert "Traceback" not in said
    again = process("run", *map(str, args))
    assert f"{done} lines done before, {len(LINES) + 2 - done} to do" in again.stderr.decode()
    assert len(answers(out)) == len(LINES) + 2


def test_a_second_signal_leaves_at_once(tmp_path):
    source = written(tmp_path / "in.jsonl", *({"prompt": "a", "max_tokens": 9000},) * 3)
    running = start(
        source, "-o", tmp_path / "out", "-m", "fake:slow=0.01", "-v", stderr=subprocess.PIPE
    )
    while not (tmp_path / "out").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    for _ in range(2):
        running.send_signal(signal.SIGINT)
        time.sleep(0.2)
    assert running.wait(10) == 130
    running.stderr.close()
    assert size(tmp_path / "out") == 0


def test_exit_codes_and_what_is_said(cli, tmp_path):
    source, out = written(tmp_path / "in", {"prompt": "a"}, {"prompt": "b"}), tmp_path / "out"
    done = cli("run", source, "-o", out, "-m", "fake", "-n", "4")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("2 lines in ")
    assert "8 tokens, " in done.err
    assert [r["response"]["body"]["usage"]["completion_tokens"] for r in answers(out).values()] == [
        4, 4,
    ]  # fmt: skip
    again = cli("run", source, "-o", out, "-m", "fake", "-n", "4")
    assert (again.code, again.err) == (0, f"{out}: 2 lines done before, 0 to do\n")


@pytest.mark.parametrize(
    "changed",
    [("-m", "fake:defaults"), ("-n", "5"), ("--seed", "1"), ("--drafter", "none"), ("-k", "2"),
     ("--verifier", "coupled"), ("--served-model-name", "x"), ("-c", "99")],
)  # fmt: skip
def test_other_options_are_refused(cli, tmp_path, changed):
    source, out = written(tmp_path / "in", {"prompt": "a"}, {"prompt": "b"}), tmp_path / "out"
    usual = ("-m", "fake", "-n", "4")
    assert cli("run", source, "-o", out, *usual).code == 0
    before = out.read_bytes()
    refused = cli("run", source, "-o", out, *usual, *changed)
    assert refused.code == 2
    assert "made with other options" in refused.err
    assert out.read_bytes() == before
    for harmless in (("-t", "1"), ("--max-batch", "2"), ("--limit", "1"), ("--shuffle-seed", "3")):
        assert cli("run", source, "-o", out, *usual, *harmless).code == 0
    written(source, {"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"})
    refused = cli("run", source, "-o", out, *usual)
    assert refused.code == 2
    assert "answers to another input" in refused.err


def test_a_limit_is_raised_later(cli, tmp_path):
    source = written(tmp_path / "in", *({"prompt": f"{i}"} for i in range(9)))
    usual = ("run", source, "-m", "fake", "-n", "4")
    for limit, count in (("0", 0), ("3", 3), ("3", 3), ("5", 5), ("99", 9)):
        assert cli(*usual, "-o", tmp_path / "out", "--limit", limit).code == 0
        assert len(answers(tmp_path / "out")) == count
    cli(*usual, "-o", tmp_path / "some", "--limit", "3", "--shuffle-seed", "4")
    some, whole = answers(tmp_path / "some"), answers(tmp_path / "out")
    assert set(some) != {1, 2, 3}
    assert same(some, {n: whole[n] for n in some})


def test_pipes(process, tmp_path):
    source = written(tmp_path / "in", {"prompt": "a", "custom_id": "é"}, {"prompt": "b"})
    done = process("run", "-", "-o", "-", "-m", "fake", "-n", "3", stdin=source.read_bytes())
    assert done.returncode == 0
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((r["line"], r["custom_id"]) for r in records) == [(1, "é"), (2, None)]
    out = tmp_path / "out"
    for said in (b"2 lines in", b"2 lines done before"):
        raw = source.read_bytes()
        done = process("run", "-", "-o", str(out), "-m", "fake", "-n", "3", stdin=raw)
        assert said in done.stderr
    assert same(answers(out), {r["line"]: r for r in records})


def test_a_closed_pipe(tmp_path):
    source = written(tmp_path / "in", *LINES)
    running = start(source, "-o", "-", "-m", "fake", stdout=subprocess.PIPE)
    running.stdout.close()
    assert running.wait(30) == 141


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nothing.jsonl", "-o", "out"), "FILE nothing.jsonl cannot be read: no such file"),
        (("in", "-o", "in"), "--out in is the file of requests"),
        (("in",), "Missing option '-o' / '--out'"),
        (("in", "-o", "no/out"), "--out no/out cannot be written"),
        (("in", "-o", "out", "--limit", "-1"), "--limit must be a whole number of at least 0"),
        (("in", "-o", "out", "-n", "0"), "--max-tokens must be a whole number of at least 1"),
        (("in", "-o", "out", "--prefix-memory", "x"), "--prefix-memory takes a size"),
        (("in", "-o", "out", "-m", "fake:ids"), "has no tokenizer: a batch needs one"),
        (("in", "-o", "-", "--ray", "local"), "--ray needs -o FILE"),
        (("in", "-o", "out", "--private-weights"), "--private-weights goes with --ray"),
        (("in", "-o", "out", "--replicas", "0"), "--replicas must be a whole number of at least 1"),
        (("in", "-o", "other"), "something else than records of forerun run: 'hello'"),
    ],
)
def test_what_cannot_be_asked_for(cli, tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "in", {"prompt": "a"})
    (tmp_path / "other").write_text("hello\n")
    done = cli("run", *args, *(() if "-m" in args else ("-m", "fake")))
    assert done.code == 2
    assert said in done.err
    assert (tmp_path / "other").read_text() == "hello\n"
    assert size(tmp_path / "out") == 0


def test_a_broken_round(cli, tmp_path):
    source = written(tmp_path / "in", {"prompt": "a"}, {"prompt": "b"})
    done = cli("run", source, "-o", tmp_path / "out", "-m", "fake:broken", "--drafter", "none")
    assert done.code == 1
    assert "a round broke off: RuntimeError: out of luck" in done.err
    assert "2 lines left: the same command goes on from here" in done.err


def test_other_makers_are_told(cli, tmp_path):
    source, out = written(tmp_path / "in", {"prompt": "a"}, {"prompt": "b"}), tmp_path / "out"
    cli("run", source, "-o", out, "-m", "fake")
    first, _ = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(first.replace(b'"forerun-0.1.0"', b'"forerun-0.0.9-avx2"'))
    said = cli("run", source, "-o", out, "-m", "fake").err
    assert "answers by forerun-0.0.9-avx2 are there, and this is forerun-0.1.0" in said


def test_the_bar(terminal, tmp_path):
    source = written(tmp_path / "in", *LINES)
    args = ("run", source, "-o", tmp_path / "out", *SLOW)
    screen = terminal(*map(str, args), COLUMNS="120")
    screen.wait_for("tokens/s")
    screen.wait_for("/60")
    assert screen.finish() == 0
    assert "60 lines in" in screen.seen
