"""SmolLM2 under grammars: what it writes is valid, with speculation as without."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("llguidance")

from forerun import Engine, Grammar
from forerun.drafters import PredictionDrafter, SuffixDrafter
from forerun.models.load import load_model

pytestmark = pytest.mark.model

SCHEMA = {
    "type": "object",
    "properties": {
        "city_name": {"type": "string", "maxLength": 20},
        "temperature": {"type": "integer", "minimum": -50, "maximum": 60},
        "conditions": {
            "type": "array",
            "items": {"enum": ["sunny", "cloudy", "rainy", "snowy"]},
            "minItems": 1,
            "maxItems": 3,
        },
        "windy": {"type": "boolean"},
    },
    "required": ["city_name", "temperature", "conditions", "windy"],
    "additionalProperties": False,
}
WEATHER = Grammar.json_schema(SCHEMA, whitespace=False)
CALL = Grammar.lark('start: name "(" args? ")"\nname: /[a-z]+/\nargs: name ("," name)*\n')
DATE = Grammar.regex(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]")
CHAT = [{"role": "user", "content": "Describe today's weather in Oslo as JSON."}]


def is_weather(text):
    found = json.loads(text)
    return (
        found.keys() == SCHEMA["properties"].keys()
        and isinstance(found["city_name"], str)
        and len(found["city_name"]) <= 20
        and type(found["temperature"]) is int
        and -50 <= found["temperature"] <= 60
        and 1 <= len(found["conditions"]) <= 3
        and set(found["conditions"]) <= {"sunny", "cloudy", "rainy", "snowy"}
        and type(found["windy"]) is bool
    )


@pytest.fixture(scope="module")
def model(smollm2_path):
    return load_model(smollm2_path, threads=1)


def mixed(model):
    """Requests of several grammars, and one of none."""
    prompt = model.tokenizer.encode_chat(CHAT)
    return [
        (prompt, {"grammar": WEATHER, "seed": 1, "temperature": 0.9}),
        (model.tokenizer.encode("The date is "), {"grammar": DATE, "seed": 2}),
        (prompt, {"seed": 3, "max_tokens": 40}),
        (prompt, {"grammar": WEATHER, "temperature": 0}),
        (model.tokenizer.encode("max(a,b)\nmin("), {"grammar": CALL, "seed": 4, "max_tokens": 30}),
        (prompt, {"grammar": Grammar.json_object(), "seed": 5, "max_tokens": 50}),
        (prompt, {"grammar": WEATHER, "seed": 6, "stop": ['"temp']}),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_schema_is_kept(model, seed):
    engine = Engine(model, SuffixDrafter(), num_draft=4)
    done = engine.generate(CHAT, grammar=WEATHER, seed=seed, temperature=1.5, max_tokens=200)
    assert done.finish_reason == "stop"
    assert is_weather(done.text)


def test_speculation_changes_no_token_in_any_company(model):
    asked = mixed(model)
    common = {"max_tokens": 120, "logprobs": 1}
    plain = [Engine(model).generate(p, **{**common, **options}) for p, options in asked]
    text = model.tokenizer.encode(plain[0].text)
    for drafter in (SuffixDrafter(), PredictionDrafter(text)):
        engine = Engine(model, drafter, num_draft=4, max_batch=4)
        found = engine.generate_batch([p for p, _ in asked], [{**common, **o} for _, o in asked])
        assert [done.tokens for done in found] == [done.tokens for done in plain]
        assert [done.text for done in found] == [done.text for done in plain]
        assert [done.logprobs for done in found] == [done.logprobs for done in plain]
        assert sum(done.stats.accepted for done in found) > 10
    assert is_weather(plain[0].text)
    assert is_weather(plain[3].text)
    assert re.fullmatch(DATE.source, plain[1].text)
    assert '"temp' not in plain[6].text
    assert plain[6].text.startswith('{"city_name":')


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_other_verifiers_keep_it_too(model, verifier):
    engine = Engine(model, SuffixDrafter(), verifier=verifier, num_draft=3, max_batch=4)
    streams = engine.submit_choices(CHAT, 4, grammar=WEATHER, temperature=1.2, max_tokens=200)
    texts = ["".join(piece.text for piece in stream) for stream in streams]
    assert all(map(is_weather, texts)), texts


TREE = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "pattern": "^[a-z]+@[a-z]+$"},
        "n": {"type": "number"},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["mail", "n", "tree"],
    "$defs": {
        "tree": {
            "type": "array",
            "items": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "integer"}, {"type": "null"}]},
        }
    },
}
TERM = Grammar.lark(
    'start: term (("+" | "-") term)*\nterm: atom ("*" atom)*\natom: /[0-9]+/ | "(" start ")"\n'
    "%ignore / +/\n"
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("grammar", [Grammar.json_schema(TREE), Grammar.json_object(), TERM])
def test_masks_are_those_of_a_matcher_that_never_rolled_back(grammar, seed, model):
    """Random drafts over the whole vocabulary, of which some tokens are committed."""
    rng = np.random.default_rng(seed)
    compiled = grammar.compile(model.tokenizer)
    ends = list(model.eos)

    def fresh(tokens):
        made = compiled.start(model.vocab_size, model.eos)
        for token in tokens:
            made.push(token)
        return made.allowed(()).tolist()

    def any_of(mask):
        able = [i for i in np.flatnonzero(mask).tolist() if i not in ends]
        common = [i for i in able if i < 1000]  # letters and signs among them
        return int(rng.choice(common if common and rng.random() < 0.7 else able))

    matcher = compiled.start(model.vocab_size, model.eos)
    while len(matcher.tokens) < 30:
        path = ()
        for _ in range(rng.integers(1, 6)):
            if not set(np.flatnonzero(matcher.allowed(path)).tolist()) - set(ends):
                break
            path = (*path, any_of(matcher.allowed(path)))
            if rng.random() < 0.2:
                matcher.forced(5)
        assert matcher.allowed(path).tolist() == fresh([*matcher.tokens, *path])
        assert matcher.allowed(()).tolist() == fresh(matcher.tokens)
        if not path:
            break
        kept = path[: rng.integers(0, len(path) + 1)]
        for token in kept:
            matcher.push(token)
        if len(kept) < len(path):  # a correction
            matcher.push(any_of(matcher.allowed(())))
