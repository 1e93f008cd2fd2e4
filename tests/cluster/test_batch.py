"""A batch over a real Ray: deaths of a replica and of the driver change no answer.

Ray is hundreds of megabytes, so that `make test` does not install it: without it these tests are
skipped, and say so.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batch.fakes import answers, same, written

from .processes import descendants

pytest.importorskip("ray", reason="NOT TESTED: Ray. pip install 'forerun[cluster]' and run again")
pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

COUNT = 300
ARGS = ("--drafter", "ngram", "-k", "3", "-t", "1")
RAY = ("--ray", "local", "--replicas", "2")


def start(*args, **options):
    command = [sys.executable, "-m", "forerun", "run", *map(str, args), *ARGS]
    return subprocess.Popen(command, **options)


def wait_for(out: Path, lines: int, running: subprocess.Popen) -> None:
    while not out.exists() or out.read_bytes().count(b"\n") < lines:
        assert running.poll() is None
        time.sleep(0.02)


def test_deaths_of_driver_and_replica(tmp_path):
    lines = [{"prompt": f"Chapter {i}. The", "max_tokens": 4 + i % 5} for i in range(COUNT - 1)]
    source, out = written(tmp_path / "in.jsonl", *lines, b"no"), tmp_path / "out.jsonl"
    first = start(source, "-o", out, *RAY, stderr=subprocess.DEVNULL)
    wait_for(out, 20, first)
    children = [child for child, _ in descendants(first.pid)]
    first.kill()
    assert first.wait() == -signal.SIGKILL
    some = out.read_bytes().count(b"\n")
    assert 20 <= some < COUNT
    while any(Path(f"/proc/{child}").exists() for child in children):
        time.sleep(0.1)  # Ray's own processes end with their driver
    again = start(source, "-o", out, *RAY, stderr=subprocess.PIPE, text=True)
    wait_for(out, some + 20, again)
    actors = [child for child, name in descendants(again.pid) if "MapWorker" in name]
    assert len(actors) == 2
    os.kill(actors[0], signal.SIGKILL)
    at_death = out.read_bytes().count(b"\n")
    _, said = again.communicate()
    assert again.returncode == 1, said  # one line is an error
    assert at_death < COUNT, "the replica died too late"
    assert f"lines done before, {COUNT - some} to do" in said
    alone = start(source, "-o", tmp_path / "alone", stderr=subprocess.DEVNULL)
    assert alone.wait() == 1
    found = answers(out)
    assert sorted(found) == list(range(1, COUNT + 1))
    assert same(found, answers(tmp_path / "alone"))
