"""Streams say what non-streams say, wherever an end falls; and who leaves is not written for."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from engine.fakes import END, TOKENS, Guessing, follows, letters
from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.openai.completions import CompletionEndpoint
from forerun.openai.logprobs import CompletionWriter
from forerun.server import chunks
from server.fakes import Serving, busy, lively_model, texts, until, writer

TEXT = "abcabd 🦊 abcé."


def told(server, *, chat=False, **fields):
    """Text, ids, logprobs, usage and reason: of the whole, and put together from a stream."""
    ask = server.chat if chat else server.complete
    logprobs = {"logprobs": True, "top_logprobs": 2} if chat else {"logprobs": 2}
    fields = {"return_token_ids": True, **logprobs, **fields}
    if not chat:
        fields["prompt"] = [4]
    found = ask(**fields).json
    choice = found["choices"][0]
    shown = choice["logprobs"]["content"] if chat else choice["logprobs"]
    text = choice["message"]["content"] if chat else choice["text"]
    whole = (text, choice["token_ids"], shown, choice["finish_reason"], found["usage"])
    events = ask(stream=True, stream_options={"include_usage": True}, **fields).events
    assert events[-1] == "[DONE]"
    parts = [event["choices"][0] for event in events[:-2]]
    ids = [token for part in parts for token in part.get("token_ids", [])]
    if chat:
        entries = [e for part in parts if part["logprobs"] for e in part["logprobs"]["content"]]
    else:
        entries = {name: [] for name in shown}
        for part in parts:
            for name, more in (part["logprobs"] or {}).items():
                entries[name] += more
    streamed = (texts(events), ids, entries, parts[-1]["finish_reason"], events[-2]["usage"])
    assert whole == streamed
    return whole


@pytest.fixture(scope="module")
def rounds_of_four():
    """Writes TEXT with drafts that are right, or wrong at every third token."""
    ids = letters(TEXT)
    found = []
    for drafter in (follows([*ids, END], 1), Guessing(_stumbling(ids)), None):
        found.append(Serving(Engine(writer(TEXT, 1), drafter, num_draft=4)))
        found[-1].start()
    yield found
    for server in found:
        server.idle()
        server.stop()


def _stumbling(ids):
    return lambda before, count: [
        7 if i % 3 == 2 else token for i, token in enumerate(ids[len(before) - 1 :][:count])
    ]


@pytest.mark.parametrize("end", range(1, len(TEXT) + 1))
def test_a_stop_at_every_position(rounds_of_four, end):
    """One that ends there; of two, the first to end wins."""
    stop = TEXT[max(end - 3, 0) : end]
    cut = TEXT.find(stop)
    found = [told(server, stop=[stop, "never", "."], max_tokens=40) for server in rounds_of_four]
    assert all(one == found[0] for one in found)
    text, ids, entries, reason, usage = found[0]
    assert text == TEXT[:cut]
    assert reason == "stop"
    assert usage["completion_tokens"] == len(ids) == len(entries["tokens"])


@pytest.mark.parametrize("budget", range(1, len(letters(TEXT)) + 2))
def test_the_budget_at_every_position(rounds_of_four, budget):
    found = [told(server, max_tokens=budget) for server in rounds_of_four]
    assert all(one == found[0] for one in found)
    text, ids, _, reason, _ = found[0]
    assert TEXT.startswith(text)
    assert ids == [*letters(TEXT), END][:budget]
    assert reason == ("length" if budget <= len(letters(TEXT)) else "stop")


def test_sampled_answers_with_stops(lively):
    for seed in range(12):
        told(lively, chat=seed % 2 == 0, seed=seed, max_tokens=40, stop=["ab", "c,", "hh"])


def test_echo_and_logprobs_in_a_stream(lively):
    fields = {"prompt": "hello", "echo": True, "logprobs": 1, "seed": 3, "max_tokens": 9}
    whole = lively.complete(**fields).json["choices"]
    events = lively.complete(stream=True, **fields).events
    assert [event["choices"] for event in events[:-1]] == [whole]
    bare = lively.complete("hello", echo=True, seed=3, max_tokens=9, stream=True).events
    assert texts(bare) == whole[0]["text"]


def test_echo_of_several_prompts_and_choices(lively, monkeypatch):
    """Each prompt's part is made once, and is the same in all of its choices."""
    made = []
    write = CompletionWriter.write
    monkeypatch.setattr(
        CompletionWriter, "write",
        lambda self, tokens, entries: made.append(tuple(tokens)) or write(self, tokens, entries),
    )  # fmt: skip
    ids = [TOKENS.encode("hello"), TOKENS.encode("ab, cd")]
    fields = {"prompt": ids, "n": 3, "echo": True, "logprobs": 1, "seed": 3, "max_tokens": 5}
    whole = lively.complete(**fields).json["choices"]
    assert [made.count(tuple(prompt)) for prompt in ids] == [1, 1]
    for number, prompt in enumerate(ids):
        alone = lively.complete(**fields | {"prompt": prompt}).json["choices"]
        mine = whole[3 * number : 3 * number + 3]
        assert [dict(choice, index=0) for choice in mine] == [dict(c, index=0) for c in alone]
    events = lively.complete(stream=True, **fields).events
    shown = sorted((event["choices"][0] for event in events[:-1]), key=lambda one: one["index"])
    assert shown == whole
    bare = lively.complete(prompt=ids, n=2, echo=True, seed=3, max_tokens=5, stream=True).events
    for index in range(4):
        said = "".join(
            c["text"] for event in bare[:-1] for c in event["choices"] if c["index"] == index
        )
        expected = whole[3 * (index // 2) + index % 2]["text"]
        assert said == expected


def test_long_work_of_a_stream_is_not_the_loops(lively, monkeypatch):
    """The loop has others to send to: a prompt's logprobs, and the counts of all rounds."""
    threads = []

    def spy(module, name):
        function = getattr(module, name)
        monkeypatch.setattr(
            module, name,
            lambda *args, **more: threads.append((name, threading.current_thread().name))
            or function(*args, **more),
        )  # fmt: skip

    spy(chunks, "usage")
    spy(chunks, "metrics")
    spy(CompletionEndpoint, "_logprobs")
    spy(CompletionEndpoint, "_echo")
    options = {"stream": True, "stream_options": {"include_usage": True}, "echo": True}
    for logprobs in (None, 2):
        assert lively.complete(max_tokens=3, logprobs=logprobs, **options).events[-1] == "[DONE]"
    assert {name for name, _ in threads} == {"usage", "metrics", "_logprobs", "_echo"}
    assert "serving" not in {thread for _, thread in threads}


def test_nothing_is_said_where_nothing_came(serve):
    """Half of a character is no event."""
    server = serve(Engine(writer("🦊", 1), None))
    events = server.complete([4], max_tokens=9, stream=True).events
    assert [event["choices"][0]["text"] for event in events[:-1]] == ["🦊", ""]


def reset(sock: socket.socket) -> None:
    """As the kernel does for a process that was killed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("leave", [socket.socket.close, reset])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("running", [True, False])
def test_who_leaves_is_not_written_for(serve, leave, stream, running):
    """In mid-answer and in the queue; the place is free at once."""
    engine = Engine(writer("x" * 5000, 1, seconds=0.005), None, max_batch=1)
    server = serve(engine)
    body = {"prompt": [4], "max_tokens": 5000, "stream": stream}
    first = server.opened("/v1/completions", body)
    until(lambda: engine.status().running)
    if stream:
        assert first.recv(100)
    if running:
        leave(first)
    else:
        second = server.opened("/v1/completions", body)
        until(lambda: engine.status().waiting)
        leave(second)
        until(lambda: engine.status().waiting == 0)
        assert engine.status().running == 1
        first.close()
    until(lambda: busy(engine) == 0, 5)
    assert server.complete([4], max_tokens=2).json["choices"][0]["text"] == "xx"


CLIENT = """
import json, sys, urllib.request
body = json.dumps({"prompt": [4], "max_tokens": 5000, "stream": True}).encode()
asked = urllib.request.Request(sys.argv[1], body, {"content-type": "application/json"})
with urllib.request.urlopen(asked) as answer:
    print(answer.read(100), flush=True)
    sys.stdin.read()
"""


def test_a_client_that_is_killed(serve):
    engine = Engine(writer("x" * 5000, 1, seconds=0.005), None)
    server = serve(engine)
    command = [sys.executable, "-c", CLIENT, f"{server.url}/v1/completions"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline()
        assert engine.status().running == 1
        client.kill()
        until(lambda: busy(engine) == 0, 5)
    assert server.complete([4], max_tokens=2).json["choices"][0]["text"] == "xx"


def test_who_leaves_while_the_drafter_runs(serve):
    class Pondering(Guessing):
        inside = False

        def propose(self, requests):
            self.inside = True
            time.sleep(0.05)
            self.inside = False
            return super().propose(requests)

    drafter = Pondering(lambda ids, count: [4 + ord("x")] * count)
    engine = Engine(writer("x" * 5000, 1), drafter, num_draft=2)
    server = serve(engine)
    sock = server.opened("/v1/completions", {"prompt": [4], "max_tokens": 5000, "stream": True})
    until(lambda: drafter.inside)
    reset(sock)
    until(lambda: busy(engine) == 0 and not drafter.slots, 5)


def test_one_of_several_choices_left(serve):
    engine = Engine(lively_model(0.002), NgramDrafter(), num_draft=3)
    server = serve(engine)
    options = {"logit_bias": {str(END): -1000}, "max_tokens": 3000, "stream": True}
    sock = server.opened("/v1/completions", {"prompt": ["hello", "ab"], "n": 3, **options})
    assert sock.recv(10)
    reset(sock)
    until(lambda: busy(engine) == 0, 5)


def test_a_slow_reader_slows_nobody(serve):
    """One reads nothing; the others' answers come as without it."""
    engine = Engine(lively_model(0.001), NgramDrafter(), num_draft=3)
    server = serve(engine)
    options = {"logit_bias": {str(END): -1000}, "max_tokens": 200, "seed": 5}
    expected = server.complete(**options).json["choices"][0]["text"]
    lazy = [
        server.opened("/v1/completions", {"prompt": "hello", "stream": True, "trace": True,
                                          "n": 3, **options})
        for _ in range(2)
    ]  # fmt: skip
    for _ in range(3):
        assert server.complete(**options).json["choices"][0]["text"] == expected
    for sock in lazy:
        sock.close()


def test_a_deaf_event_loop_is_no_error():
    """Listeners may be called after the loop has gone."""
    from forerun.server.answers import Answers
    from forerun.server.metrics import Metrics

    engine = Engine(lively_model(), None)

    async def make():
        return Answers(engine, Metrics(engine.status), tenant="", arrived=0, timeout=1)

    asyncio.run(make())._listen(None)
