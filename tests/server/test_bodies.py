"""Bodies of megabytes cost little, whatever is in them, and nothing of it on the event loop."""

from __future__ import annotations

import threading

import pytest
from pydantic import ValidationError

from forerun.openai.requests import Body, ChatRequest, CompletionRequest, DetokenizeRequest
from forerun.openai.responses import Completions
from forerun.server import bodies

MANY = 200_000


def many(item: str) -> str:
    return ",".join(item.replace("%d", str(i)) for i in range(MANY))


BOMBS = {
    "messages": (ChatRequest, '{"messages": [ITEMS]}', "1"),
    "bare messages": (ChatRequest, '{"messages": [ITEMS]}', "{}"),
    "good messages": (ChatRequest, '{"messages": [ITEMS]}', '{"role":""}'),
    "parts": (ChatRequest, '{"messages": [{"role": "user", "content": [ITEMS]}]}', "1"),
    "texts, then numbers": (CompletionRequest, '{"prompt": ["", ITEMS]}', "1"),
    "numbers, then texts": (CompletionRequest, '{"prompt": [1, ITEMS]}', '""'),
    "nothing": (CompletionRequest, '{"prompt": [ITEMS]}', "null"),
    "lists": (CompletionRequest, '{"prompt": [ITEMS]}', "[1]"),
    "wrong lists": (CompletionRequest, '{"prompt": [[ITEMS]]}', '""'),
    "stops": (CompletionRequest, '{"prompt": "a", "stop": [ITEMS]}', "1"),
    "stop ids": (CompletionRequest, '{"prompt": "a", "stop_token_ids": [ITEMS]}', '""'),
    "biases": (CompletionRequest, '{"prompt": "a", "logit_bias": {ITEMS}}', '"%d":""'),
    "good biases": (CompletionRequest, '{"prompt": "a", "logit_bias": {ITEMS}}', '"%d":1'),
    "ids": (DetokenizeRequest, '{"tokens": [ITEMS]}', '""'),
}


def bomb(name: str) -> tuple[type[Body], str]:
    model, body, item = BOMBS[name]
    return model, body.replace("ITEMS", many(item))


@pytest.mark.parametrize("name", BOMBS)
def test_of_many_errors_few_are_found(name):
    model, body = bomb(name)
    with pytest.raises(ValidationError) as found:
        model.model_validate_json(body)
    assert found.value.error_count() < 16


@pytest.mark.parametrize("name", ["messages", "texts, then numbers", "lists", "biases"])
def test_they_are_answered(lively, name):
    model, body = bomb(name)
    path = "/v1/chat/completions" if model is ChatRequest else "/v1/completions"
    found = lively.ask(path, body.encode())
    assert found.status == 400
    assert found.error["param"] in body[:60]
    assert len(found.body) < 2000


def test_many_unknown_fields(lively):
    fields = dict.fromkeys(map(str, range(MANY)), 1)
    assert lively.complete("a", max_tokens=1, **fields).status == 200


def test_what_may_take_long_is_not_done_by_the_loop(lively, monkeypatch):
    seen: dict[str, str] = {}
    read, write = bodies._read, Completions.to_json

    def reading(*args):
        seen["read"] = threading.current_thread().name
        return read(*args)

    def writing(reply):
        seen["written"] = threading.current_thread().name
        return write(reply)

    monkeypatch.setattr(bodies, "_read", reading)
    monkeypatch.setattr(Completions, "to_json", writing)
    assert lively.complete("a", max_tokens=1, user="b" * bodies.SMALL).status == 200
    assert sorted(seen) == ["read", "written"]
    assert "serving" not in seen.values()
    assert lively.complete("a", max_tokens=1).status == 200
    assert seen["read"] == "serving"  # small ones are
