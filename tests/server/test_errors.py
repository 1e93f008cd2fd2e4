"""Every refusal has its status and OpenAI's shape; nothing is a 422."""

from __future__ import annotations

import json
import logging
import socket
from http.client import HTTPResponse

import numpy as np
import pytest

from engine.fakes import END, TOKENS, letters
from forerun import Engine
from forerun.models.tabular import TabularModel
from forerun.server.service import Service
from server.fakes import JSON, MODEL, WIDE, busy, lively_model, until, writer

MALFORMED = {
    b"": "JSON object",
    b"{": "not valid JSON",
    b"[]": "JSON object",
    b"null": "JSON object",
    b"7": "JSON object",
    b"\xff\xfe": "body",
    b'{"prompt": "a"': "not valid JSON",
    b"[" * 100_000: "body",
    b'{"prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}": "body",
    b"{}": "prompt",
}


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_bodies(lively, body):
    found = lively.ask("/v1/completions", body, method="POST")
    assert found.status == 400
    assert MALFORMED[body] in found.error["message"]
    assert found.error["type"] == "invalid_request_error"
    assert found.headers["content-type"] == "application/json"


def test_a_body_that_is_not_said_to_be_json(lively):
    body = b'{"prompt": "a"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        found = lively.ask("/v1/completions", body, headers={"content-type": kind})
        assert found.status == 400
        assert "content-type: application/json" in found.error["message"]


WRONG = {
    "max_tokens": ["many", -1, 1.5, True, 2**40],
    "temperature": [-1, "hot", float("nan"), True],
    "top_p": [-0.1, 1.1, "x"],
    "n": [0, 129, "2", 1.5],
    "stop": [5, [5], [""], ["a"] * 17, "a" * 1001, ["a" * 1001]],
    "seed": ["x", 1.5, 2**70],
    "stream": ["yes", 1],
    "stream_options": [{"include_usage": True}, 5],  # without stream
    "logprobs": [21, -1, True, "x"],
    "echo": ["yes"],
    "presence_penalty": ["x", float("inf")],
    "frequency_penalty": [[]],
    "logit_bias": [{"a": 1}, {"-1": 1}, {"5": "x"}, [5], {"99999": 1}, {"1" * 30: 1}],
    "best_of": [2],
    "suffix": ["end"],
    "top_k": [-2, 1.5],
    "min_p": [2],
    "num_draft": [65, "some"],
    "drafter": ["ngrm", 5],
    "prediction": ["text", {"type": "other", "content": "a"}, {"type": "content", "content": 5}],
    "response_format": [{"type": "xml"}, "json", {"type": "json_schema"}],
    "prompt": [5, None, [], [[]], ["a", 5], [5, "a"], {"a": 1}, "", [-1], [2**40], [WIDE]],
    "model": ["gpt", 5],
}


@pytest.mark.parametrize("field", WRONG)
def test_wrong_values(lively, field):
    for value in WRONG[field]:
        body = json.dumps({"prompt": "hello", field: value}).encode()
        found = lively.ask("/v1/completions", body)
        missing = field == "model" and value == "gpt"
        assert found.status == (404 if missing else 400), (field, value, found.body)
        assert found.error["message"]
        if missing:
            assert found.error["code"] == "model_not_found"
            assert MODEL in found.error["message"]


UNSUPPORTED = {
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "audio": {"voice": "alloy", "format": "wav"},
    "modalities": ["text", "audio"],
    "web_search_options": {},
}


@pytest.mark.parametrize("field", UNSUPPORTED)
def test_known_fields_that_are_not_supported(lively, field):
    found = lively.chat(**{field: UNSUPPORTED[field]})
    assert found.status == 400
    assert found.error["message"] == f"{field} is not supported by this server"
    assert found.error["param"] == field


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": None}, {"tools": []}, {"tool_choice": "none"}, {"modalities": ["text"]},
        {"store": True, "metadata": {"a": "b"}, "service_tier": "auto", "user": "me"},
        {"stop": None, "seed": None, "n": None, "logit_bias": None, "response_format": None},
        {"response_format": {"type": "text"}}, {"temperature": 0}, {"top_p": 1}, {"n": 1},
    ],
)  # fmt: skip
def test_fields_that_ask_for_nothing(lively, fields):
    assert lively.chat(max_tokens=2, **fields).status == 200


def test_unknown_fields_are_taken_and_logged(lively, caplog):
    with caplog.at_level(logging.INFO, logger="forerun.server"):
        found = lively.complete(max_tokens=2, frobnicate=5, speed={"x": 1})
        assert found.status == 200
        lines = until(  # written after the answer was sent
            lambda: [
                r.fields for r in caplog.records if r.message == "request" and "unknown" in r.fields
            ]
        )
    assert [line["unknown"] for line in lines] == [["frobnicate", "speed"]]
    assert lines[0]["status"] == 200


def test_top_logprobs_needs_logprobs(lively):
    assert lively.chat(top_logprobs=2).status == 400
    assert lively.chat(top_logprobs=2, logprobs=False).status == 400
    assert lively.chat(top_logprobs=2, logprobs=True, max_tokens=1).status == 200


def test_half_surrogates(lively):
    """They are no Unicode: in a prompt, in a key, in the name of a field, in what is ignored."""
    for body in (
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "a", "logit_bias": {"\\ud800": 1}}',
        b'{"prompt": "a", "\\ud800": 1}',
        b'{"prompt": "a", "stop": "\\udfff"}',
    ):
        found = lively.ask("/v1/completions", body)
        assert found.status == 400
        assert "not valid JSON" in found.error["message"]


def test_paths_and_methods(lively):
    found = lively.ask("/v1/nothing")
    assert found.status == 404
    assert "/v1/nothing" in found.error["message"]
    found = lively.ask("/v1/completions")
    assert found.status == 405
    assert found.headers["allow"] == "POST"
    assert "GET" in found.error["message"]
    assert lively.ask("/health", method="DELETE").error["type"] == "invalid_request_error"
    assert lively.ask("/v1/models/none").error["code"] == "model_not_found"


def test_a_prompt_that_is_too_long(serve):
    model = TabularModel(lambda prefix: np.eye(WIDE)[9], WIDE, END, context=8, name=MODEL)
    model.tokenizer = TOKENS
    server = serve(Engine(model, None))
    found = server.complete(letters("12345678"))
    assert found.status == 400
    assert "context of 8" in found.error["message"]
    assert server.complete(letters("1234567")).json["choices"][0]["finish_reason"] == "length"


def test_a_prompt_that_cannot_fit_is_not_read(serve, monkeypatch):
    model = TabularModel(lambda prefix: np.eye(WIDE)[9], WIDE, END, context=8, name=MODEL)
    model.tokenizer = TOKENS
    server = serve(Engine(model, None))
    monkeypatch.setattr(type(TOKENS._vocabulary.encoder), "encode", None)  # not called
    for found in (server.complete("a" * 5000), server.complete(["a", "b" * 5000]),
                  server.chat("a" * 5000)):  # fmt: skip
        assert found.status == 400
        assert found.error["code"] == "context_length_exceeded"


def broken(at: int):
    """NaN logits from position `at` on."""

    class Broken(TabularModel):
        def extend(self, steps):
            rows = super().extend(steps)
            for step, logits in zip(steps, rows):
                first = self.length(step.slot) - len(logits)
                logits[max(at - first, 0) :] = np.nan
            return rows

    model = Broken(lambda prefix: np.eye(WIDE)[4 + ord("a")], WIDE, END, name=MODEL)
    model.tokenizer = TOKENS
    return model


def test_an_error_while_it_runs(serve):
    server = serve(Engine(broken(10), None))
    found = server.complete(letters("123"), max_tokens=40)
    assert found.status == 500
    assert found.error["type"] == "server_error"
    assert server.complete(letters("123"), max_tokens=4).status == 200


def test_an_error_in_mid_stream_is_an_event_and_then_the_end(serve):
    server = serve(Engine(broken(10), None))
    for found in (
        server.complete(letters("123"), max_tokens=40, stream=True),
        server.chat("", max_tokens=40, stream=True),
    ):
        assert found.status == 200
        *_, last = found.events
        assert sorted(last["error"]) == ["code", "message", "param", "type"]
        assert last["error"]["type"] == "server_error"
        assert all("error" not in event for event in found.events[:-1])


def test_too_many_wait(serve):
    engine = Engine(writer("x" * 400, 1, seconds=0.01), None, max_batch=1, max_waiting=1)
    server = serve(engine)
    first = server.opened("/v1/completions", {"prompt": [4], "max_tokens": 400})
    until(lambda: engine.status().running)
    second = server.opened("/v1/completions", {"prompt": [4], "max_tokens": 400})
    until(lambda: engine.status().waiting)
    found = server.complete([4])
    assert found.status == 429
    assert int(found.headers["retry-after"]) > 0
    assert (found.error["type"], found.error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    found = server.complete([4], n=3)  # never
    assert found.status == 400
    assert "takes 2 at most" in found.error["message"]
    assert server.ask("/health").status == 200
    first.close()
    second.close()
    server.idle()
    assert server.complete([4], max_tokens=1).status == 200


def test_too_many_choices(serve):
    server = serve(Engine(lively_model(), None), max_choices=4)
    assert server.complete(["a", "b"], n=2, max_tokens=1).status == 200
    assert server.complete(["a", "b", "c"], n=2, max_tokens=1).status == 400


def test_of_several_prompts_all_are_taken_or_none(serve):
    """None runs where a later one cannot be used, or has no room."""
    engine = Engine(writer("x" * 400, 1, seconds=0.01), None, max_batch=1, max_waiting=4)
    server = serve(engine)
    assert server.complete([[4], [WIDE]], max_tokens=400).status == 400
    assert server.complete([[4]] * 6, max_tokens=400).status == 400
    assert busy(engine) == 0
    held = [server.opened("/v1/completions", {"prompt": [4], "max_tokens": 400}) for _ in range(3)]
    until(lambda: engine.status().running + engine.status().waiting == 3)
    assert server.complete([[4], [4]], n=2, max_tokens=400).status == 429
    assert engine.status().running + engine.status().waiting == 3
    for sock in held:
        sock.close()


def test_a_line_that_is_not_http(lively):
    host, port = lively.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"hello\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")
    assert lively.ask("/health").status == 200


def test_what_is_cut_off_because_the_engine_closes(serve):
    """It is not told that time was up."""
    for stream in (False, True):
        engine = Engine(writer("x" * 5000, 1, seconds=0.01), None)
        server = serve(engine)
        sock = server.opened(
            "/v1/completions", {"prompt": [4], "max_tokens": 5000, "stream": stream}
        )
        until(lambda engine=engine: engine.status().running)
        engine.close()
        found = HTTPResponse(sock)
        found.begin()
        said = found.read()
        assert found.status == (200 if stream else 503)
        assert b"this server is going down" in said
        assert b"time limit" not in said
        sock.close()


def test_headers_of_every_answer(lively):
    found = [lively.ask("/health"), lively.ask("/nothing"), lively.complete(5)]
    assert len({answer.headers["x-request-id"] for answer in found}) == 3
    assert all("server" not in answer.headers for answer in found)
    assert lively.ask("/v1/models", headers=JSON).status == 200


def test_an_error_that_nobody_foresaw(serve, monkeypatch, caplog):
    """It has all that other answers have: a name, headers for browsers, a place in the counts."""
    server = serve(Engine(lively_model(), None), cors_origins=("*",))
    monkeypatch.setattr(Service, "named", lambda self, model: 1 / 0)
    found = server.ask(
        "/v1/completions",
        {"prompt": "a"},
        headers={**JSON, "origin": "https://good.example"},
    )
    assert found.status == 500
    assert found.error["message"] == "the server failed at this request"
    assert found.headers["x-request-id"]
    assert found.headers["access-control-allow-origin"] == "*"
    counted = b'http_requests_total{path="/v1/completions",status="500"} 1.0'
    until(lambda: counted in server.ask("/metrics").body)
    assert any(record.message == "request_failed" for record in caplog.records)
