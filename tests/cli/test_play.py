"""`forerun play` as a process: what it says, serves and opens."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys

import pytest

from .conftest import FAKE


class Played:
    def __init__(self, *args: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, FAKE, "play", "--port", "0", *args], text=True,
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env},
        )  # fmt: skip
        self.said = self.process.stderr.readline()

    def ask(self, path: str, key: str | None = None):
        port = int(re.search(r"127\.0\.0\.1:(\d+)", self.said)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def interrupt(self) -> tuple[int, str, str]:
        """Exit code, standard output and error."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def played():
    open_ = []

    def go(*args, **env):
        open_.append(Played(*args, **env))
        return open_[-1]

    yield go
    for one in open_:
        one.process.kill()
        one.process.communicate()


def test_it_plays_with_a_model(played):
    one = played("-m", "fake", "--drafter", "none", "-k", "0", "--api-key", "one", "--no-open")
    assert one.said.startswith("the playground is at http://127.0.0.1:")
    assert one.ask("/")[0] in (200, 404)  # the page, or how to build it
    assert one.ask("/v1/forerun/setup")[0] == 401
    status, raw = one.ask("/v1/forerun/setup", key="one")
    assert status == 200
    assert b'"target_seconds":[' in raw  # measured, though nothing drafts
    assert one.interrupt() == (0, "", "")


def test_it_plays_without_a_model(played):
    one = played("--no-model", "--no-open", "-m", "no-such-model")
    assert one.ask("/health") == (200, b'{"status":"ok"}')
    assert one.ask("/v1/models")[0] == 404
    assert one.interrupt() == (0, "", "")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="windows are always there")
@pytest.mark.parametrize("display", ["", ":9"])
def test_a_browser_opens_where_there_are_windows(played, tmp_path, display):
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new\nmv {seen}.new {seen}\n')
    browser.chmod(0o755)
    one = played("--no-model", DISPLAY=display, WAYLAND_DISPLAY="", BROWSER=str(browser))
    assert one.ask("/health")[0] == 200
    if display:
        for _ in range(1000):
            if seen.exists():
                break
            one.ask("/health")
        assert seen.read_text().strip() in one.said
    assert one.interrupt()[0] == 0
    assert seen.exists() == bool(display)


def test_misuse(cli):
    result = cli("play", "-m", "fake", "--port", "70000")
    assert result.code == 2
    assert "--port must be from 0 to 65535, not 70000" in result.err
    result = cli("play", "--no-model", "--host", "no.such.host.invalid")
    assert result.code == 2
    assert "cannot be served at" in result.err


def test_without_the_extra():
    script = (
        "import sys; sys.modules['fastapi'] = None; from forerun.cli.app import run;"
        "sys.exit(run(['play']))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 2
    assert "pip install 'forerun[server]'" in found.stderr
