"""`response_format`: answers that follow a grammar, alike with speculation and without."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from http.client import HTTPResponse

import numpy as np
import pytest

from engine.fakes import END, TOKENS
from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.errors import GrammarError
from forerun.models.tabular import TabularModel
from forerun.server import backend
from forerun.text.grammar import Grammar
from forerun.text.matcher import Matcher
from server.fakes import MODEL, WIDE, texts, until


def babbling():
    """Any byte or token, some more than others, by the last two tokens."""

    def law(prefix):
        dice = np.random.default_rng((prefix[-1] * 31 + len(prefix)) % 997)
        p = dice.random(WIDE) ** 3
        p[:4], p[END] = 0, 0.2
        return p / p.sum()

    model = TabularModel(law, WIDE, TOKENS.eos, name=MODEL)
    model.tokenizer = TOKENS
    return model


@pytest.fixture(scope="module")
def guided():
    from server.fakes import serving

    with serving(Engine(babbling(), NgramDrafter(), num_draft=4)) as found:
        yield found


SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["red", "green"]}, "count": {"type": "integer"}},
    "required": ["kind", "count"],
    "additionalProperties": False,
}
KINDS = {
    "schema": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
    "regex": {"type": "regex", "regex": "(red|green), [0-9]{2,4}"},
    "lark": {"type": "lark", "lark": 'start: "red" | "green" start'},
}


@pytest.mark.parametrize("kind", KINDS)
def test_formats(guided, kind):
    for seed in range(4):
        fields = {"seed": seed, "max_tokens": 400, "response_format": KINDS[kind]}
        found = guided.chat(**fields).json["choices"][0]
        said = found["message"]["content"]
        assert found["finish_reason"] == "stop"
        if kind == "schema":
            read = json.loads(said)
            assert read["kind"] in ("red", "green")
            assert isinstance(read["count"], int)
        else:
            assert re.fullmatch(r"(red|green), \d{2,4}" if kind == "regex" else "(green)*red", said)
        assert texts(guided.chat(stream=True, **fields).events) == said
        plain = guided.chat(speculative=False, **fields).json["choices"][0]
        assert plain == found


def test_any_object(guided):
    fields = {"max_tokens": 60, "response_format": {"type": "json_object"}}
    for seed in range(4):
        said = guided.chat(seed=seed, **fields).json["choices"][0]
        assert said["message"]["content"].lstrip().startswith("{")
        if said["finish_reason"] == "stop":
            assert isinstance(json.loads(said["message"]["content"]), dict)


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "a"}},
        {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}},
        {"type": "json_schema", "json_schema": {"schema": False}},
        {"type": "regex"},
        {"type": "regex", "regex": "("},
        {"type": "lark", "lark": "start: nothing"},
        {"type": "yaml"},
    ],
)
def test_formats_that_cannot_be_used(guided, wanted):
    found = guided.chat(response_format=wanted)
    assert found.status == 400
    assert found.error["message"]


def test_a_grammar_that_fails_while_it_runs_is_the_clients(serve, monkeypatch):
    def fail(self, path):
        raise GrammarError("the regex grew too complex")

    server = serve(Engine(babbling(), None))
    monkeypatch.setattr(Matcher, "allowed", fail)
    found = server.chat(response_format=KINDS["regex"])
    assert found.status == 400
    assert found.error["param"] == "response_format"


def test_a_library_that_fails_at_a_grammar(serve, monkeypatch):
    def fail(self, tokenizer):
        raise RuntimeError("it fell over")

    server = serve(Engine(babbling(), None))
    monkeypatch.setattr(Grammar, "compile", fail)
    found = server.chat(response_format=KINDS["regex"])
    assert found.status == 400
    assert found.error["param"] == "response_format"
    assert server.chat(max_tokens=1).status == 200


def test_grammars_that_take_long_hold_up_nobody(serve, monkeypatch):
    """Neither other requests nor their own time limit; too many of them are told to come later."""
    read, compiled = threading.Event(), Grammar.compile

    def slow(self, tokenizer):
        assert read.wait(60)
        return compiled(self, tokenizer)

    monkeypatch.setattr(Grammar, "compile", slow)
    monkeypatch.setattr(backend, "GRAMMARS_WAITING", 8)
    engine = Engine(babbling(), None)
    server = serve(engine, timeout=3)
    body = {"prompt": "a", "max_tokens": 2, "response_format": KINDS["regex"]}
    try:
        held = [server.opened("/v1/completions", body) for _ in range(14)]
        answers = [HTTPResponse(sock) for sock in held]
        assert server.complete(max_tokens=1).status == 200
        for answer in answers:
            answer.begin()
        statuses = Counter(answer.status for answer in answers)
        assert set(statuses) == {408, 429}
        assert 8 <= statuses[408] <= 10  # two are read, or not taken up yet
    finally:
        read.set()
    for answer, sock in zip(answers, held):
        answer.close()
        sock.close()
    server.idle()

    def status():
        return server.complete(max_tokens=2, response_format=KINDS["regex"]).status

    until(lambda: status() != 429)  # those that were held are read first
    assert status() == 200
