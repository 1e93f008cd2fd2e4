"""Under load nothing is lost, mixed up or left behind: every finished text is its solo run's."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from forerun import Engine
from forerun.drafters import SuffixDrafter
from forerun.models.load import load_model
from server.fakes import Serving, busy, lively_model, until

PAGES = 16 << 20  # bytes of the prefix cache
STORM = str(Path(__file__).with_name("storm.py"))


def storm(engine: Engine, requests: int, connections: int, most: int, seconds: float) -> Any:
    """Run it against a server, with one reader beside it that never reads; what came of it."""
    server = Serving(engine, max_body=200_000, max_choices=16)
    server.start()
    memory: list[int] = []
    ended = threading.Event()
    sampling = threading.Thread(target=watch, args=(memory, ended))
    sampling.start()
    try:
        lazy = server.opened(
            "/v1/completions",
            {"prompt": "the cat", "max_tokens": 16, "n": 16, "stream": True, "trace": True},
            buffer=2048,
        )
        command = [sys.executable, STORM, server.url]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as looking:
            done = subprocess.run(
                [*command, str(requests), str(connections), "7", str(most)],
                capture_output=True, timeout=seconds, check=False,
            )  # fmt: skip
            ended.set()
            looks, said = looking.communicate(b"", timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        assert looking.returncode == 0, said.decode()
        lazy.close()
        server.idle()
        return json.loads(done.stdout) | {"health": json.loads(looks), "memory": memory}
    finally:
        ended.set()
        sampling.join()
        server.stop()


def watch(memory: list[int], ended: threading.Event) -> None:
    """Bytes this process holds, twice a second: the clients, and what they say, are elsewhere."""
    while not ended.wait(0.5):
        memory.append(4096 * int(Path("/proc/self/statm").read_text().split()[1]))


def grown(memory: list[int]) -> float:
    """Bytes from the second quarter of the time to the last: what is needed once is there by
    then."""
    quarter = len(memory) // 4
    return mean(memory[-quarter:]) - mean(memory[quarter : 2 * quarter])


def check(found: Any, solo: Engine, requests: int) -> None:
    """Every answer is what it has to be."""
    results = found["results"]
    assert len(results) == requests
    expected: dict[int, str] = {}
    for result in results:
        asked, status = result["asked"], result["status"]
        if asked["kind"] == "malformed":
            assert status == 400
        elif asked["kind"] == "over":
            assert status == (413 if asked["how"] == "body" else 400), result
        elif asked["kind"] == "plain":
            assert status == 200, result
            if asked["variant"] not in expected:
                prompt = asked["prompt"]
                expected[asked["variant"]] = solo.generate(
                    [{"role": "user", "content": prompt}] if asked["chat"] else prompt,
                    seed=asked["seed"], max_tokens=asked["max_tokens"], num_draft=0,
                ).text  # fmt: skip
            assert result["text"] == expected[asked["variant"]], asked
    kinds = Counter(result["asked"]["kind"] for result in results)
    assert kinds["plain"] > requests / 2
    assert all(kinds[kind] for kind in ("leaves", "malformed", "over"))


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def test_three_hundred_requests():
    model = lively_model()
    model.context = 4096
    engine = Engine(model, SuffixDrafter(memory_bytes=1 << 20), num_draft=4, max_waiting=64)
    found = storm(engine, 300, 40, 16, seconds=300)
    check(found, Engine(model), 300)
    assert busy(engine) == 0
    assert not engine.drafter._readers
    assert p99(found["health"]) < 5  # a hung server; how fast it is is measured elsewhere


@pytest.mark.model
def test_three_hundred_requests_of_the_real_model(smollm2_path):
    _real(smollm2_path, 300, 40, 16, seconds=500)


@pytest.mark.model
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_five_thousand_requests_of_the_real_model(smollm2_path):
    _real(smollm2_path, 5000, 200, 32, seconds=7000)


def _real(path: Path, requests: int, connections: int, most: int, seconds: float) -> None:
    target = load_model(path)
    drafter = SuffixDrafter(memory_bytes=1 << 20)
    with Engine(
        target, drafter, num_draft=4, max_batch=16, max_waiting=1024, prefix_memory=PAGES
    ) as engine:
        found = storm(engine, requests, connections, most, seconds)
        left_behind(engine)
    check(found, Engine(target), requests)
    health = sorted(found["health"])
    print(
        f"{requests} requests in {found['seconds']:.1f} s; /health: p50 "
        f"{1000 * health[len(health) // 2]:.1f} ms, p99 {1000 * p99(health):.1f} ms, most "
        f"{1000 * health[-1]:.1f} ms of {len(health)}; memory "
        f"{[round(held / 1e6) for held in found['memory'][:: len(found['memory']) // 12 + 1]]} MB"
    )
    assert p99(health) < 5  # a hung server; how fast it is, is written down where it is measured
    if requests > 1000:
        assert grown(found["memory"]) < 32 << 20


def left_behind(engine: Engine) -> None:
    """Nothing is, once the server has stopped."""
    assert busy(engine) == 0
    scheduler = engine._scheduler
    assert not scheduler.arrived
    assert not scheduler.left
    assert not engine._driver._bell._sleepers
    assert 0 < engine.status().prefix_bytes <= PAGES
    assert not engine.drafter._readers


def test_a_server_that_was_killed_leaves_nothing_to_repair(tmp_path):
    """kill −9: the next one takes the same port."""
    script = (
        "import sys; sys.path.insert(0, {tests!r})\n"
        "from server.fakes import lively_model\n"
        "from forerun import Engine\n"
        "from forerun.server import Server, ServerConfig\n"
        "s = Server(Engine(lively_model(0.01)), ServerConfig(models=('tiny',)), port={port})\n"
        "print(s.url, flush=True)\n"
        "s.run()\n"
    )
    port = 0
    for _ in range(2):
        command = script.format(tests=str(Path(__file__).parents[1]), port=port)
        process = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE)
        try:
            url = process.stdout.readline().decode().strip()
            port = int(url.rpartition(":")[2])
            client = subprocess.run(
                [sys.executable, "-c",
                 f"import urllib.request as u; print(u.urlopen('{url}/health').status)"],
                capture_output=True, timeout=60, check=False,
            )  # fmt: skip
            assert client.stdout == b"200\n", client.stderr
            held = socket.create_connection(("127.0.0.1", port))
            held.sendall(
                b"POST /v1/completions HTTP/1.1\r\nhost: [::1]\r\n"
                b"content-type: application/json\r\n"
                b'content-length: 51\r\n\r\n{"prompt": "hello", "max_tokens": 900, "stream": 1}'
            )
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        held.close()
    until(lambda: process.returncode is not None)
