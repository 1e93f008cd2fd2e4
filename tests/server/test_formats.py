"""`response_format`: answers that follow a grammar, alike with speculation and without."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from engine.fakes import END, TOKENS
from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.models.tabular import TabularModel
from server.fakes import MODEL, WIDE, texts


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
