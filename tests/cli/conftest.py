from __future__ import annotations

import io
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import fakes
from forerun.cli.app import run

FAKE = str(Path(__file__).with_name("fake_forerun.py"))


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch, capsys):
    """Runs a command line in this process, with `-m fake` known; standard streams are pipes."""
    for module in ("session", "models"):
        monkeypatch.setattr(f"forerun.cli.{module}.load_model", fakes.load_model)
    for name in ("NO_COLOR", "FORERUN_DEBUG", "FORERUN_CACHE"):
        monkeypatch.delenv(name, raising=False)

    def go(*args: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return go


class Terminal:
    """A process on a pseudo-terminal of its own; `seen` is all it wrote."""

    def __init__(self, args, env):
        import pty

        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, FAKE, "tty", *args],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **env},
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str, *, after: int = 0, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen[after:]:
            alive = self._read(max(0.0, end - time.monotonic()))
            assert alive, f"no {text!r} in {self.seen!r}"

    def finish(self, seconds: float = 30) -> int:
        end = time.monotonic() + seconds
        while self._read(max(0.0, end - time.monotonic())):
            pass
        return self.process.wait(max(1.0, end - time.monotonic()))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def terminal():
    opened = []

    def start(*args, **env):
        opened.append(Terminal(args, env))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def process():
    """Runs the command in a process of its own, on pipes."""

    def go(*args: str, stdin: bytes = b"", **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, FAKE, *args], input=stdin, capture_output=True, timeout=60,
            env={**os.environ, **env},
        )  # fmt: skip

    return go
