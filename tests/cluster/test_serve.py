"""`forerun serve --ray` on a real Ray: deaths of replicas change no answer, new models come in
while old answers end, and Ctrl-C ends what was started.

Ray is hundreds of megabytes, so that `make test` does not install it: without it these tests are
skipped, and say so.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from forerun import load
from forerun.openai.completions import CompletionEndpoint
from forerun.openai.requests import CompletionRequest

from .processes import descendants, events

pytest.importorskip("ray", reason="NOT TESTED: Ray. pip install 'forerun[cluster]' and run again")
pytestmark = [pytest.mark.long, pytest.mark.model, pytest.mark.timeout(900)]

DRAFTING = {"drafter": "ngram", "num_draft": 3}
ARGS = ("--drafter", "ngram", "-k", "3", "-t", "1")
STREAMS = 40


class Served:
    """The command, and its log, which the fronts write too."""

    def __init__(self, folder, *args: str) -> None:
        self.log = folder / "log"
        command = [sys.executable, "-m", "forerun", "serve", *ARGS, "--log-file", self.log, *args]
        self.process = subprocess.Popen(
            [*map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "RAY_AUTH_MODE": "token"},
        )  # fmt: skip

    def event(self, name: str, seconds: float = 400, count: int = 1) -> dict:
        end = time.monotonic() + seconds
        while len(found := events(self.log, name)) < count:
            assert time.monotonic() < end, self.log.read_text()
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.1)
        return found[-1]

    @property
    def url(self) -> str:
        return self.event("serving")["url"]

    def replicas(self) -> list[int]:
        below = descendants(self.process.pid)
        return [pid for pid, name in below if "ServeReplica:forerun:replicas" in name]

    def stop(self) -> list[int]:
        """By Ctrl-C; what it had started."""
        below = [pid for pid, _ in descendants(self.process.pid)]
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(120) == 0, self.process.stderr.read()
        return below


@contextmanager
def served(folder, *args):
    found = Served(folder, *args)
    try:
        found.event("serving")
        yield found
    finally:
        below = [pid for pid, _ in descendants(found.process.pid)]
        found.process.kill()
        found.process.communicate()
        for pid in below:
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.1)


def asked(number: int) -> dict:
    """A body: greedy and seeded ones, with stops, choices, log-probabilities, and unseeded ones."""
    body = {"prompt": f"Chapter {number}. The", "max_tokens": 30 + number % 20, "seed": number}
    if number % 4 == 1:
        body["temperature"] = 0
    if number % 5 == 2:
        body["n"] = 2
    if number % 5 == 3:
        body |= {"logprobs": 1, "frequency_penalty": 0.5}
    if number % 8 == 4:
        body["stop"] = ["the ", "."]
    if number % 8 == 6:
        body["response_format"] = {"type": "regex", "regex": "( [a-z]{2,9}){4,9}[.]"}
    if number % 8 == 7:
        del body["seed"]
    return body


def alone(engine, body: dict) -> list:
    target = engine.target
    endpoint = CompletionEndpoint(CompletionRequest(**body), target.tokenizer, target.eos)
    return engine.generate_choices(body["prompt"], body.get("n", 1), **endpoint.options)


class Told:
    """What a stream has said."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.ids: dict[int, list[int]] = {}
        self.logprobs: dict[int, list[float]] = {}
        self.reasons: dict[int, str] = {}
        self.usage: dict | None = None
        self.error: dict | None = None
        self.whole = False

    def hear(self, data: str) -> None:
        if data == "[DONE]":
            self.whole = True
            return
        event = json.loads(data)
        self.error = event.get("error")
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices", ()):
            i = choice["index"]
            self.texts[i] = self.texts.get(i, "") + choice["text"]
            self.ids.setdefault(i, []).extend(choice.get("token_ids") or ())
            if choice["logprobs"]:
                self.logprobs.setdefault(i, []).extend(choice["logprobs"]["token_logprobs"])
            if choice["finish_reason"]:
                self.reasons[i] = choice["finish_reason"]


async def listen(client, url: str, body: dict, told: Told) -> None:
    extra = {"stream": True, "return_token_ids": True, "stream_options": {"include_usage": True}}
    async with client.stream("POST", f"{url}/v1/completions", json=body | extra) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if line:
                told.hear(line.removeprefix("data: "))


def test_a_replica_dies_under_forty_streams(tmp_path):
    engine = load("smollm2", threads=1, **DRAFTING)
    bodies = [asked(number) for number in range(STREAMS)]
    expected = [alone(engine, body) for body in bodies]
    told = [Told() for _ in bodies]

    async def go(command):
        limits = httpx.Limits(max_connections=STREAMS)
        async with httpx.AsyncClient(timeout=300, limits=limits) as client:
            tasks = [
                asyncio.ensure_future(listen(client, command.url, *each))
                for each in zip(bodies, told)
            ]
            while sum(len(ids) for one in told for ids in one.ids.values()) < 200:
                await asyncio.sleep(0.01)
            victim = command.replicas()[0]
            os.kill(victim, signal.SIGKILL)
            await asyncio.gather(*tasks)

    with served(tmp_path, "--ray", "--replicas", "2", "--port", "0") as command:
        assert len(command.replicas()) == 2
        asyncio.run(go(command))
        lost = events(command.log, "replica_lost")
        assert sum(line["tokens"] > 0 for line in lost) >= 3, "it died too late, or too early"
        for body, found, whole in zip(bodies, told, expected, strict=True):
            assert (found.error, found.whole) == (None, True), body
            assert sorted(found.texts) == list(range(body.get("n", 1)))
            written = sum(map(len, found.ids.values()))
            assert found.usage["completion_tokens"] == written
            if "seed" not in body:
                assert set(found.reasons.values()) <= {"length", "stop"}
                continue
            for i, done in enumerate(whole):
                assert tuple(found.ids[i]) == done.tokens, body
                assert (found.texts[i], found.reasons[i]) == (done.text, done.finish_reason)
                if "logprobs" in body:
                    assert found.logprobs[i] == [one.logprob for one in done.logprobs]
        command.event("serving", count=2)  # another has taken its place
        left = command.stop()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in left)


def post(url: str, path: str, **body) -> dict:
    answer = httpx.post(f"{url}{path}", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def running(url: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("forerun_num_requests_run"))[-3:])


def engines(url: str, gauge: str) -> dict[str, float]:
    """What each replica's engine said last, by its name."""
    lines = httpx.get(url).text.splitlines()
    of = (
        re.match(rf'ray_forerun_{gauge}{{.*[{{,]replica="([^"]+)".*}} (\S+)$', one) for one in lines
    )
    return {found[1]: float(found[2]) for found in of if found}


def test_beginnings_go_where_they_were_read_and_who_leaves_is_not_written_for(tmp_path):
    with served(tmp_path, "--ray", "--replicas", "2", "--port", "0") as command:
        cached = {}
        for number in range(12):
            letter = "abc"[number % 3]
            prompt = f"{letter} says: " + f"we have seen the {letter} before. " * 40 + str(number)
            usage = post(command.url, "/v1/completions", prompt=prompt, max_tokens=2)["usage"]
            cached.setdefault(letter, []).append(usage["prompt_tokens_details"]["cached_tokens"])
        assert [first for first, *_ in cached.values()] == [0] * 3
        assert all(min(later) > 200 for _, *later in cached.values()), cached
        metrics = command.event("serving")["engine_metrics"]
        end = time.monotonic() + 60
        while sum((hits := engines(metrics, "prefix_cache_hits")).values()) != 9:
            assert time.monotonic() < end, hits
            time.sleep(0.5)
        assert len(hits) == 2

        body = {"prompt": "It", "max_tokens": 4000, "min_tokens": 4000, "stream": True}
        with httpx.stream("POST", f"{command.url}/v1/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            assert running(command.url) == 1
        end = time.monotonic() + 30
        while running(command.url):
            assert time.monotonic() < end
            time.sleep(0.1)
        command.stop()


def test_auto_adds_a_replica_for_a_long_queue(tmp_path):
    async def go(command):
        async with httpx.AsyncClient(timeout=600) as client:
            body = {"prompt": "It", "max_tokens": 500, "min_tokens": 500}
            told = [Told() for _ in range(24)]
            tasks = [asyncio.ensure_future(listen(client, command.url, body, t)) for t in told]
            while not all(task.done() for task in tasks) and len(command.replicas()) < 2:
                await asyncio.sleep(0.5)
            grown = len(command.replicas())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return grown

    args = ("--ray", "--replicas", "auto", "--max-batch", "4", "--port", "0")
    with served(tmp_path, *args) as command:
        assert len(command.replicas()) == 1
        assert asyncio.run(go(command)) == 2
        command.stop()


@contextmanager
def cluster():
    """A Ray that is somebody else's, with an application of theirs; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        http = probe.getsockname()[1]
    code = f"""
import ray, sys, time
from ray import serve
ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
@serve.deployment(ray_actor_options={{"num_cpus": 0}})
class Theirs:
    def __call__(self, request):
        return "theirs"
serve.start(http_options={{"host": "127.0.0.1", "port": {http}}})
serve.run(Theirs.bind(), name="theirs", route_prefix="/theirs")
print("ADDRESS", ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        address = next(line.split()[1] for line in process.stdout if line.startswith("ADDRESS"))
        yield address, f"http://127.0.0.1:{http}"
    finally:
        below = [pid for pid, _ in descendants(process.pid)]
        process.communicate("")
        for pid in below:
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.1)


def test_another_model_comes_in_on_a_cluster_of_others(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    async def go(url, second):
        """Streams begin before the second command, and end after it."""
        async with httpx.AsyncClient(timeout=300) as client:
            body = {"prompt": "It", "max_tokens": 150, "min_tokens": 150, "seed": 1}
            told = [Told() for _ in range(6)]
            tasks = [asyncio.ensure_future(listen(client, url, body, one)) for one in told]
            while not all(one.ids for one in told):
                await asyncio.sleep(0.01)
            second.append(Served(tmp_path / "b", *args, "--served-model-name", "new"))
            statuses = set()
            while not all(task.done() for task in tasks) or not events(second[0].log, "serving"):
                answer = await client.post(
                    f"{url}/v1/completions", json={**body, "max_tokens": 150}
                )
                statuses.add((answer.status_code, answer.json().get("model")))
            await asyncio.gather(*tasks)
            return told, statuses

    with cluster() as (address, theirs):
        args = ("--ray", address, "--replicas", "2")
        with served(tmp_path / "a", *args, "--served-model-name", "old") as first:
            assert first.url == theirs  # where Serve listened before
            second: list[Served] = []
            try:
                told, statuses = asyncio.run(go(first.url, second))
                assert all(one.whole and one.error is None for one in told)
                assert len({tuple(one.ids[0]) for one in told}) == 1
                assert statuses <= {(200, "old"), (200, "new")}
                assert first.process.wait(60) == 0
                assert events(first.log, "taken_over")
                answer = post(theirs, "/v1/completions", prompt="It", max_tokens=2)
                assert answer["model"] == "new"
                second[0].process.send_signal(signal.SIGTERM)
                assert second[0].process.wait(120) == 0
            finally:
                for one in second:
                    one.process.kill()
                    one.process.communicate()
        assert httpx.get(f"{theirs}/theirs").text == "theirs"
        assert httpx.get(f"{theirs}/v1/models").status_code == 404
