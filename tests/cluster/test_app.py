"""The server's app over replicas: what clients see of a death, which is nothing."""

from __future__ import annotations

import asyncio

import httpx

from cluster.fakes import Front, replica
from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.server import ServerConfig, create_app
from forerun.server.app import serving
from server.fakes import lively_model, parse_events, texts

BODY = {"max_tokens": 30, "min_tokens": 20, "seed": 4, "stop": ["abc"], "n": 2}
CONFIG = ServerConfig(models=("tiny",))


class Backend:
    """Replicas by hand."""

    def __init__(self, front):
        self._front = front
        self.facts = front.replicas[0].told().facts

    def status(self):
        return None

    def answers(self, metrics, **terms):
        return self._front.relay(metrics, **terms)

    def start(self):
        pass

    async def close(self):
        pass


def ask(app, requests):
    async def go():
        transport = httpx.ASGITransport(app)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://here") as client,
            app.router.lifespan_context(app),
        ):
            return [await client.post(path, json=body) for path, body in requests]

    return asyncio.run(go())


def over(losses, requests, **options):
    with replica([Engine(lively_model(), NgramDrafter()) for _ in range(3)], **options) as replicas:
        front = Front(replicas, losses=losses)
        return front, ask(serving(Backend(front), CONFIG), requests)


def requests():
    talk = [{"role": "user", "content": "hello"}]
    extra = {"stream": True, "stream_options": {"include_usage": True}}
    return [
        ("/v1/completions", {"prompt": ["a", "b"], "logprobs": 2, "echo": True, **BODY}),
        ("/v1/completions", {"prompt": "a", "logprobs": 2, "trace": True, **BODY, **extra}),
        ("/v1/chat/completions", {"messages": talk, "logprobs": True, **BODY}),
        ("/v1/chat/completions", {"messages": talk, "return_token_ids": True, **BODY, **extra}),
    ]


def said(answers):
    """Without what differs from run to run: names, times, who drafted what."""
    found = []
    for answer in answers:
        assert answer.status_code == 200, answer.text
        streamed = answer.headers["content-type"].startswith("text/event-stream")
        events = parse_events(answer.content) if streamed else [answer.json()]
        assert not streamed or events.pop() == "[DONE]"
        usage = [{k: event["usage"][k] for k in ("prompt_tokens", "completion_tokens")}
                 for event in events if event.get("usage")]  # fmt: skip
        by_choice = {}
        for choice in (choice for event in events for choice in event["choices"]):
            by_choice.setdefault(choice["index"], []).append(choice)
        whole = {}
        for i, parts in by_choice.items():
            logprobs = [part["logprobs"] for part in parts if part["logprobs"]]
            whole[i] = (
                texts([{"choices": parts}]) if streamed else parts[0].get("text") or parts[0],
                [p for one in logprobs for p in one.get("token_logprobs") or one["content"]],
                [t for one in logprobs for t in one.get("text_offset") or ()],
                [t for part in parts for t in part.get("token_ids") or ()],
                parts[-1]["finish_reason"],
            )
        found.append((usage, whole))
    return found


def test_clients_see_nothing_of_a_death():
    engine = Engine(lively_model(), NgramDrafter())
    alone = said(ask(create_app(engine, CONFIG), requests()))
    for losses in ([], [9, None] * 4, [2, 3, None, 30, 1, None, 12, None, 3]):
        front, answers = over(losses, requests())
        assert said(answers) == alone
        assert len(front.calls) == 4 + len([one for one in losses if one])


def test_fingerprints_name_all_who_wrote():
    paths = ["forerun-1-a", "forerun-1-b", "forerun-1-b"]
    _, (answer, stream) = over([6, None, 6], requests()[2:], paths=paths)
    assert answer.json()["system_fingerprint"] == "forerun-1-a+forerun-1-b"
    events = parse_events(stream.content)[:-1]
    names = list(dict.fromkeys(event["system_fingerprint"] for event in events))
    assert names == ["forerun-1-b", "forerun-1-b+forerun-1-a"]


def test_an_answer_that_cannot_go_on_ends_without_done():
    bound = {"prompt": "a", "seed": 1, "verifier": "block", "max_tokens": 40, "min_tokens": 40}
    _, (stream, whole) = over([5, 5], [("/v1/completions", bound | {"stream": True}),
                                      ("/v1/completions", bound)])  # fmt: skip
    *events, last = stream.content.decode().strip().split("\n\n")
    assert len(events) > 1
    assert "seed 1 promises a text that another engine cannot go on with" in last
    assert "[DONE]" not in last
    assert whole.status_code == 200
    engine = Engine(lively_model(), NgramDrafter())
    expected = engine.generate("a", **{k: v for k, v in bound.items() if k != "prompt"})
    assert whole.json()["choices"][0]["text"] == expected.text
