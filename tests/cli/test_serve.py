"""`forerun serve` as a process: options, the log, signals."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from . import fakes
from .conftest import FAKE


class Served:
    """The command in a process of its own; `lines` of its log as they come."""

    def __init__(self, *args: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, FAKE, "serve", "--port", "0", *args],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **env},
        )  # fmt: skip
        self.lines: list[dict] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def event(self, name: str, seconds: float = 30, **fields: str) -> dict:
        """The first line of the log that says so; it may come after an answer was sent."""
        wanted = {"event": name, **fields}.items()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := [line for line in self.lines if all(line.get(k) == v for k, v in wanted)]:
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"no {dict(wanted)} in {self.lines}")

    @property
    def port(self) -> int:
        return int(self.event("serving")["url"].rpartition(":")[2])

    def ask(self, path: str, body: dict | None = None, key: str | None = None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"content-type": "application/json"}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, data, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        self.process.stderr.close()
        self.process.stdout.close()


@pytest.fixture
def served():
    open_ = []

    def go(*args, **env):
        open_.append(Served(*args, **env))
        return open_[-1]

    yield go
    for one in open_:
        one.close()


def test_the_next_server_remembers_what_this_one_wrote(served, tmp_path):
    answers = []
    for _ in range(2):
        server = served(
            "-m", "fake", "--drafter", "suffix", "-k", "3", "--memory", str(tmp_path / "kept")
        )  # fmt: skip
        body = {"prompt": "the cat", "max_tokens": 30, "temperature": 0}
        status, raw = server.ask("/v1/completions", body)
        assert status == 200
        answers.append(json.loads(raw))
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
    first, second = answers
    assert first["choices"][0]["text"] == second["choices"][0]["text"]
    drafted = [answer["metrics"]["speculative_decoding"] for answer in answers]
    rates = [counts["draft_acceptance_rate"] for counts in drafted]
    assert rates[0] < 1, "it knew nothing of the text"
    assert rates[1] == 1, drafted


def test_it_serves(served):
    server = served("-m", "fake", "--drafter", "ngram", "-k", "3")
    assert server.ask("/health") == (200, b'{"status":"ok"}')
    status, raw = server.ask("/v1/completions", {"prompt": "the cat", "max_tokens": 9, "seed": 1})
    assert status == 200
    assert json.loads(raw)["model"] == "fake"
    logged = server.event("request", path="/v1/completions")
    assert (logged["path"], logged["status"], logged["tokens"]) == ("/v1/completions", 200, 9)
    assert "the cat" not in json.dumps(server.lines)


def test_names_keys_and_prompts_in_the_log(served):
    server = served(
        "-m", "fake", "--drafter", "none", "--served-model-name", "a/b", "--served-model-name",
        "c", "--api-key", "one", "--log-prompts", FORERUN_API_KEY="two,three",
    )  # fmt: skip
    for key in ("one", "two", "three"):
        _, raw = server.ask("/v1/models", key=key)
        assert [model["id"] for model in json.loads(raw)["data"]] == ["a/b", "c"]
    assert server.ask("/v1/models")[0] == 401
    assert server.ask("/v1/models/a/b", key="one")[0] == 200
    server.ask("/v1/completions", {"prompt": "the cat", "max_tokens": 2}, key="two")
    logged = server.event("request", path="/v1/completions")
    assert logged["request"]["prompt"] == "the cat"
    assert len(logged["texts"][0]) == 2
    said = json.dumps(server.lines)
    assert not any(f'"{key}"' in said for key in ("one", "two", "three"))


def ask_slowly(server: Served, tokens: int) -> dict:
    """In a thread: what came of a stream of so many tokens."""
    found: dict = {}

    def run() -> None:
        try:
            found["status"], found["raw"] = server.ask(
                "/v1/completions", {"prompt": "the cat", "max_tokens": tokens, "stream": True}
            )
        except (http.client.HTTPException, OSError) as error:
            found["error"] = error

    found["thread"] = threading.Thread(target=run)
    found["thread"].start()
    end = time.monotonic() + 30
    while b"forerun_num_requests_running 1.0" not in server.ask("/metrics")[1]:
        assert time.monotonic() < end
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(served, number):
    server = served("-m", "fake:slow=0.05", "--drafter", "none")
    port = server.port
    running = ask_slowly(server, 30)
    server.process.send_signal(number)
    server.event("draining")
    end = time.monotonic() + 10
    while time.monotonic() < end:  # nobody is let in any more
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            time.sleep(0.05)
        except ConnectionRefusedError:
            break
    running["thread"].join()
    assert running["status"] == 200
    assert running["raw"].endswith(b"data: [DONE]\n\n")
    assert server.process.wait(20) == 0
    server.event("closed")


def test_a_second_signal_ends_it(served):
    server = served("-m", "fake:slow=0.05", "--drafter", "none")
    running = ask_slowly(server, 5000)
    server.process.send_signal(signal.SIGTERM)
    server.event("draining")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(15) == 1
    running["thread"].join()
    assert not running.get("raw", b"").endswith(b"[DONE]\n\n")


def test_a_second_signal_ends_it_whatever_hangs(served):
    """A thread in the middle of a library's call, which nobody can interrupt."""
    server = served("-m", "fake:stuck", "--drafter", "none")
    body = json.dumps({"prompt": "stuck"})
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n"
            b"content-type: application/json\r\n"
            + f"content-length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert server.ask("/health")[0] == 200  # it is read by now, or will be
        server.process.send_signal(signal.SIGTERM)
        server.event("draining")
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(15) == 1


def test_costs_are_measured_before_anybody_may_ask(cli, monkeypatch):
    """Not within the first request's rounds, where all others would wait for it."""
    seen = []

    class Listening:
        def __init__(self, engine, config, **where):
            seen.append(engine._costs)

        def run(self):
            pass

    monkeypatch.setattr("forerun.server.Server", Listening)
    assert cli("serve", "-m", "fake", "--drafter", "ngram", "-k", "3").code == 0
    assert cli("serve", "-m", "fake", "--drafter", "none").code == 0
    assert seen[0] is not None
    assert seen[1] is None  # nobody drafts


def test_caches_have_a_limit_and_the_log_says_which(served, cli, monkeypatch):
    """A share of the machine's memory where nothing is said."""
    given = []

    def load(name, **settings):
        given.append(settings["max_memory"])
        return fakes.load_model(name)

    class Listening:
        def __init__(self, *args, **where):
            pass

        def run(self):
            pass

    monkeypatch.setattr("forerun.server.Server", Listening)
    monkeypatch.setattr("forerun.cli.session.load_model", load)
    monkeypatch.setattr("forerun.cli.serve.usable_memory", lambda: 4_000_000)
    for args in ((), ("--max-memory", "5MB")):
        cli("serve", "-m", "fake", "--drafter", "none", *args)
    monkeypatch.setattr("forerun.cli.serve.usable_memory", lambda: None)
    cli("serve", "-m", "fake", "--drafter", "none")
    assert given == [1_000_000, 5_000_000, None]
    assert "cache_limit_bytes" in served("-m", "fake", "--drafter", "none").event("serving")


MISUSE = {
    "--port 70000": "--port must be from 0 to 65535, not 70000",
    "--max-body lots": "--max-body takes a size such as",
    "--timeout 0": "--timeout must be a number of seconds above 0",
    "--cors-origin example.org": "--cors-origin is '*' or scheme://host",
    "--max-batch 0": "--max-batch must be a whole number of at least 1, not 0",
    "--max-waiting -1": "--max-waiting must be",
    "--replicas 2": "--replicas goes with --ray",
    "--cpus-per-replica 2": "--cpus-per-replica goes with --ray",
    "--gpus-per-replica 0": "--gpus-per-replica goes with --ray",
    "--fronts 1": "--fronts goes with --ray",
    "--private-weights": "--private-weights goes with --ray",
    "--ray --memory kept": "--memory FILE is one process's to write: it does not go with --ray",
    "--ray --replicas 0": "--replicas must be at least 1, not 0",
    "--ray --replicas some": "'some' is neither a whole number nor auto",
    "--ray auto --fronts 0": "--fronts must be at least 1, not 0",
    "--cpus-per-replica 0 --ray": "--cpus-per-replica must be at least 1, not 0",
    "--ray local --gpus-per-replica -1": "--gpus-per-replica must be at least 0, not -1.0",
    "--stream-pacing 0": "--stream-pacing must be a number of milliseconds above 0",
    "--host no.such.host.invalid": "cannot be served at",
    "--drafter ngrm": "unknown drafter 'ngrm'",
}


@pytest.mark.parametrize("args", MISUSE)
def test_misuse(cli, args):
    result = cli("serve", "-m", "fake", "-k", "0", *args.split())
    assert result.code == 2
    assert MISUSE[args] in result.err
    assert result.err.count("\n") == 1


def test_a_port_that_is_taken(cli):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = cli("serve", "-m", "fake", "-k", "0", "--port", port)
    assert result.code == 2
    assert "address already in use" in result.err


def test_a_model_without_a_tokenizer(cli):
    result = cli("serve", "-m", "fake:ids", "--drafter", "none")
    assert result.code == 2
    assert "has no tokenizer" in result.err


def test_without_the_extra(process):
    script = (
        "import sys; sys.modules['fastapi'] = None; from forerun.cli.app import run;"
        "sys.exit(run(['serve']))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 2
    assert "pip install 'forerun[server]'" in found.stderr
