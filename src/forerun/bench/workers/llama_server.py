"""llama.cpp's llama-server. Modes: plain, the names of its --spec-type, and several with "+".

    draft-simple     by the draft model (γ: --spec-draft-n-max)
    ngram-simple, ngram-map-k, ngram-mod, ngram-cache      from the text so far, as it comes
    ngram-short      ngram-simple with n-grams of 3 in place of 12, which copies sooner

Each mode is a server of its own on a free port of this machine; it starts when it is first used. It
says how many drafted tokens were accepted, from which the number of passes follows; time in passes
and the cost of a pass over so many rows it does not say.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import socket
import subprocess
import time
from time import perf_counter
from typing import Any

PATIENCE = 300  # seconds until a server must be ready
NGRAM = ("ngram-simple", "ngram-map-k", "ngram-map-k4v")


class Engine:
    def __init__(
        self, model: str, draft_model: str | None, threads: int, context: int, binary: str
    ) -> None:
        self._binary, self._draft_model = binary, draft_model
        self._common = [binary, "-m", model, "-c", str(context), "-t", str(threads)]
        self._common += ["-tb", str(threads), "-np", "1", "--host", "127.0.0.1", "--offline"]
        self._ports: dict[tuple[str, int | None], int] = {}

    def info(self) -> dict[str, Any]:
        said = subprocess.run([self._binary, "--version"], capture_output=True, text=True)
        return {"version": (said.stderr or said.stdout).splitlines()[0].removeprefix("version: ")}

    def generate(
        self,
        mode: str,
        num_draft: int | None,
        prompt: list[int],
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int | None,
        stop_ids: list[int],
    ) -> dict[str, Any]:
        port = self._server(mode, num_draft)
        asked = {
            "prompt": prompt,
            "n_predict": max_tokens,
            "temperature": temperature,
            "top_k": 0,
            "top_p": top_p,
            "min_p": 0.0,
            "repeat_penalty": 1.0,
            "seed": seed if seed is not None else 0,
            "cache_prompt": False,
            "return_tokens": True,
            "stream": True,
        }
        tokens: list[int] = []
        arrivals: list[list[float]] = []
        timings: dict[str, Any] = {}
        start = perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/completion", json.dumps(asked), headers)
        response = connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"llama-server answered {response.status}: {response.read()!r}")
        for line in response:
            if not line.startswith(b"data: "):
                continue
            now = perf_counter()
            said = json.loads(line[6:])
            if found := said.get("tokens"):
                tokens += found
                arrivals.append([now - start, len(found)])
            timings = said.get("timings", timings)
        connection.close()
        drafted, accepted = timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
        return {
            "tokens": tokens,
            "arrivals": arrivals,
            "passes": max(timings.get("predicted_n", len(tokens)) - 1 - accepted, 0),
            "drafted": drafted,
            "accepted": accepted,
            "model_seconds": None,
            "expected": None,
        }

    def passes(self, ids: list[int], rows: int, times: int) -> None:
        return None

    def prompt(self, ids: list[int]) -> float:
        port = self._server("plain", None)
        asked = {"prompt": ids, "n_predict": 1, "cache_prompt": False}
        connection = http.client.HTTPConnection("127.0.0.1", port)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/completion", json.dumps(asked), headers)
        said = json.loads(connection.getresponse().read())
        connection.close()
        return float(said["timings"]["prompt_ms"]) / 1e3

    def _server(self, mode: str, num_draft: int | None) -> int:
        """The port of the server of this mode, started if it does not run."""
        if (mode, num_draft) in self._ports:
            return self._ports[mode, num_draft]
        port = _free_port()
        command = [*self._common, "--port", str(port), *self._speculation(mode, num_draft)]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        atexit.register(_end, server)
        give_up = perf_counter() + PATIENCE
        while not _ready(port):
            if server.poll() is not None or perf_counter() > give_up:
                raise RuntimeError(f"llama-server did not start (exit code {server.poll()})")
            time.sleep(0.1)
        self._ports[mode, num_draft] = port
        return port

    def _speculation(self, mode: str, num_draft: int | None) -> list[str]:
        if mode == "plain":
            return []
        kinds, options = mode.split("+"), []
        if "draft-simple" in kinds:
            assert self._draft_model is not None
            options += ["--spec-draft-model", self._draft_model]
            options += ["--spec-draft-n-max", str(num_draft)] if num_draft else []
        if "ngram-short" in kinds:
            kinds[kinds.index("ngram-short")] = "ngram-simple"
            options += ["--spec-ngram-simple-size-n", "3"]
        for kind in kinds:
            if kind in NGRAM and num_draft:
                options += [f"--spec-{kind}-size-m", str(num_draft)]
        return ["--spec-type", ",".join(kinds), *options]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(10)
        return
    server.kill()
