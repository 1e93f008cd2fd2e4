"""Calls to a process: answers, errors, silence and death."""

from __future__ import annotations

import sys
import time

import pytest

from bench.conftest import FAKE
from forerun.bench import systems
from forerun.bench.process import Process
from forerun.errors import PeerError

OPEN = {"model": "m", "draft_model": None, "threads": 1, "context": 64}
ASK = {
    "num_draft": None, "prompt": [1], "max_tokens": 4, "temperature": 0.0, "top_p": 1.0,
    "seed": 0, "stop_ids": [],
}  # fmt: skip


@pytest.fixture
def process(tmp_path):
    serve = str(systems._WORKERS / "serve.py")
    with Process(
        "fake", [sys.executable, serve, str(FAKE)], log=tmp_path / "log", patience=30.0
    ) as made:
        yield made


def test_answers(process, tmp_path):
    assert process.call("open", **OPEN)["version"] == "fake 1"
    assert len(process.call("generate", mode="plain", **ASK)["tokens"]) == 4
    assert "noise" in (tmp_path / "log").read_text()  # and not among the answers


def test_an_error_is_named_and_does_not_end_it(process):
    process.call("open", **OPEN)
    with pytest.raises(
        PeerError, match=r"fake could not generate: RuntimeError: it cannot be done"
    ):
        process.call("generate", mode="fail", **ASK)
    with pytest.raises(PeerError, match="there is no call 'dance'"):
        process.call("dance")
    assert process.call("info")["version"] == "fake 1"


def test_death_is_told_with_last_words(process):
    process.call("open", **OPEN)
    with pytest.raises(PeerError, match=r"ended during generate \(exit code 3\): .*last words"):
        process.call("generate", mode="die", **ASK)
    with pytest.raises(PeerError, match="ended during info"):
        process.call("info")


def test_silence_ends_with_patience(process):
    process.call("open", **OPEN)
    process._patience = 0.2
    with pytest.raises(PeerError, match="has not answered generate for 0 s"):
        process.call("generate", mode="slow", **ASK)


def test_what_is_no_program_cannot_start(tmp_path):
    with pytest.raises(PeerError, match="ghost could not be started: No such file"):
        Process("ghost", [str(tmp_path / "nothing")], log=tmp_path / "log")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_it_ends_with_what_it_started(tmp_path):
    script = "import os, subprocess, sys, time; p = subprocess.Popen(['sleep', '100']); "
    script += f"open({str(tmp_path / 'child')!r}, 'w').write(str(p.pid)); time.sleep(100)"
    process = Process("parent", [sys.executable, "-c", script], log=tmp_path / "log")
    end = time.monotonic() + 20
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    child = int((tmp_path / "child").read_text())
    process.close()
    while _runs(child):
        assert time.monotonic() < end
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether the process is there and not only waiting to be buried."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
