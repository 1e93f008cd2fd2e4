"""Requests under grammars: what comes out, in any company, and how they end."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

pytest.importorskip("llguidance")

from certify.tables import table
from engine.fakes import (
    END,
    NONE_OPEN,
    TOKENS,
    Guessing,
    drafters,
    letters,
    open_slots,
    says,
    speaks,
    writes,
)
from forerun import Engine, Grammar
from forerun.drafters import PredictionDrafter
from forerun.errors import GrammarError, LawError, OptionError
from forerun.models.tabular import TOKEN_BYTES, TabularModel
from text.tiny import sentencepiece

V = TOKENS.vocab_size
PROMPT = letters("say: ")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Ada", "Alan"]}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
PERSON = Grammar.json_schema(SCHEMA, whitespace=False)


def babbler(**options):
    """A model whose law depends on the whole prefix; it has no idea of any grammar."""
    return speaks(table(V, 1), **options)


def endless():
    """One without end tokens."""
    model = TabularModel(lambda prefix: np.full(V, 1 / V), V)
    model.tokenizer = TOKENS
    return model


def helpers():
    made = drafters(V)
    text = TOKENS.encode('{"name":"Ada","age":12}')
    return {**made, "prediction": lambda: PredictionDrafter([*text, END])}


def is_person(text):
    found = json.loads(text)
    return (
        found.keys() == {"name", "age"}
        and found["name"] in ("Ada", "Alan")
        and type(found["age"]) is int
        and found["age"] <= 99
    )


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled", "auto"])
@pytest.mark.parametrize("drafter", helpers())
def test_what_ends_is_valid(drafter, verifier):
    engine = Engine(babbler(), helpers()[drafter](), verifier="auto", num_draft=3)
    for seed in range(4):
        done = engine.generate(
            PROMPT, grammar=PERSON, seed=seed, verifier=verifier, max_tokens=200, top_k=3
        )
        assert done.finish_reason == "stop"
        assert is_person(done.text)
        assert done.tokens[-1] == END or done.tokens[-1] in TOKENS.eos
        assert b"".join(map(TOKENS.token_bytes, done.tokens)).decode() == done.text


@pytest.mark.parametrize("num_draft", [1, 2, 5, "auto"])
def test_seeded_texts_are_those_of_plain_decoding_in_any_company(num_draft):
    grammars = [
        PERSON, None, Grammar.regex("(ab|ba)*c"), Grammar.lark('start: "x" start "y" | "z"'), PERSON
    ]  # fmt: skip
    asked = [
        {"grammar": one, "seed": n, "max_tokens": 40, "verifier": "coupled", "logprobs": 1}
        for n, one in enumerate(grammars)
    ]
    plain = [Engine(babbler()).generate(PROMPT, **one) for one in asked]
    assert len({done.tokens for done in plain}) == len(asked)
    for name, make in helpers().items():
        engine = Engine(babbler(), make(), num_draft=num_draft, max_batch=3)
        found = engine.generate_batch([PROMPT] * len(asked), asked)
        assert [done.tokens for done in found] == [done.tokens for done in plain], name
        assert [done.logprobs for done in found] == [done.logprobs for done in plain], name
        assert [done.text for done in found] == [done.text for done in plain], name


def test_choices_of_one_prompt_each_follow_the_grammar():
    engine = Engine(babbler(), helpers()["prediction"](), num_draft=3)
    options = {"grammar": PERSON, "seed": 3, "max_tokens": 200, "top_k": 3}
    streams = engine.submit_choices(PROMPT, 4, **options)
    texts = ["".join(piece.text for piece in stream) for stream in streams]
    assert all(map(is_person, texts))
    assert len(set(texts)) > 1
    assert texts[0] == engine.generate(PROMPT, **options).text


def test_stops_and_the_budget_cut_a_text_short():
    engine = Engine(babbler(), helpers()["prediction"](), num_draft=3)
    common = {"grammar": PERSON, "seed": 1, "top_k": 3}
    whole = engine.generate(PROMPT, max_tokens=200, **common)
    for budget in range(1, len(whole.tokens)):
        done = engine.generate(PROMPT, max_tokens=budget, **common)
        assert (done.tokens, done.finish_reason) == (whole.tokens[:budget], "length")
    done = engine.generate(PROMPT, max_tokens=200, stop=['"age"'], **common)
    assert done.finish_reason == "stop"
    assert done.text == whole.text[: whole.text.index('"age"')]


def test_streams_deliver_the_text():
    engine = Engine(babbler(), helpers()["prediction"](), num_draft=3)
    options = {"grammar": PERSON, "seed": 2, "max_tokens": 200, "top_k": 3}
    with engine.stream(PROMPT, **options) as stream:
        text = "".join(piece.text for piece in stream)
    assert text == stream.done.text == engine.generate(PROMPT, **options).text
    assert open_slots(engine) == NONE_OPEN


def test_one_that_is_interrupted_for_memory_goes_on_where_it_stood():
    options = {"grammar": Grammar.regex("([a-f][g-m]){60}z"), "max_tokens": 140}
    asked = [options | {"seed": seed} for seed in range(3)]
    alone = [Engine(babbler()).generate(PROMPT, **one).tokens for one in asked]
    two = 2 * (len(PROMPT) + 64) + 10  # may begin together, and cannot end so
    model = speaks(table(V, 1), max_memory=two * TOKEN_BYTES)
    engine = Engine(model, helpers()["suffix"](), num_draft=3, max_batch=3)
    found = engine.generate_batch([PROMPT] * 3, asked)
    assert engine.status().preempted > 0
    assert [done.error for done in found] == [None] * 3
    assert [done.tokens for done in found] == alone
    assert all(done.text[-1] == "z" for done in found)


def test_a_space_that_begins_the_text_is_its_own():
    """Tokenizers that put a space before a text take it off again; here it is the grammar's."""
    made = sentencepiece()
    model = TabularModel(table(made.vocab_size, 1), made.vocab_size, made.eos)
    model.tokenizer = made
    done = Engine(model).generate([4, 5], grammar=Grammar.regex(" hello"), seed=1)
    assert (done.text, done.finish_reason) == (" hello", "stop")
    chat = [{"role": "user", "content": "hello"}]
    assert Engine(model).generate(chat, grammar=Grammar.regex(" hello"), seed=1).text == " hello"


def test_min_tokens_gives_way_to_a_finished_grammar():
    done = Engine(babbler()).generate(
        PROMPT, grammar=Grammar.regex("abc"), min_tokens=30, max_tokens=40, seed=1
    )
    assert (done.text, done.finish_reason) == ("abc", "stop")
    done = Engine(babbler()).generate(
        PROMPT, grammar=Grammar.regex("[abc]*"), min_tokens=30, max_tokens=30, seed=1
    )
    assert len(done.tokens) == 30
    assert re.fullmatch("[abc]{30,}", done.text)


def test_a_stop_id_ends_the_text_where_the_grammar_may_end():
    x, y = letters("xy")
    model = endless()
    for seed in range(5):
        done = Engine(model).generate(
            PROMPT, grammar=Grammar.regex("(ay?)+"), stop_ids=[x, y], seed=seed, max_tokens=400
        )
        assert done.tokens[-1] in (x, y)
        assert re.fullmatch("a+", done.text)


def test_one_that_leaves_nothing_ends_in_error_alone():
    engine = Engine(babbler(), helpers()["model"](), num_draft=3)
    bad, good = engine.generate_batch(
        [PROMPT, PROMPT],
        [
            {"grammar": Grammar.regex("ab+"), "banned": letters("b"), "seed": 1},
            {"grammar": Grammar.regex("ab"), "seed": 1},
        ],
    )
    assert good.text == "ab"
    assert isinstance(bad.error, LawError)
    assert bad.finish_reason == "error"
    assert "position 6, slot" in str(bad.error)


def test_forced_tokens_are_drafted_where_anything_is():
    """One that can only say one thing: in two passes with a drafter that has nothing to say."""
    told = Grammar.regex("say hello hello")
    nothing = Guessing(lambda ids, count: ())
    model = writes(TOKENS.encode("say hello hello"), len(PROMPT))
    engine = Engine(model, nothing, num_draft=8)
    done = engine.generate(PROMPT, grammar=told, temperature=0)
    assert (done.text, done.finish_reason) == ("say hello hello", "stop")
    assert {r.drafter for r in done.trace} <= {"grammar", "guessing", None}
    first = done.trace[0]
    assert first.drafter == "grammar"
    assert [d.accepted for d in first.drafted] == [True] * 5
    assert done.stats.drafters["grammar"].accepted == 5
    plain = engine.generate(PROMPT, grammar=told, temperature=0, num_draft=0)
    assert plain.tokens == done.tokens
    for off in (
        Engine(model).generate(PROMPT, grammar=told, temperature=0),
        engine.generate(PROMPT, grammar=told, temperature=0, drafter=None),
        plain,
    ):
        assert off.stats.drafted == 0
    alone = engine.generate(PROMPT, grammar=told, temperature=0, drafter="grammar")
    assert alone.stats.accepted == 5


def test_a_forced_token_may_be_refused_by_the_model():
    """The same bytes, spelled in letters: the guess is wrong, and costs nothing but time."""
    spelled = letters("say hello hello")
    model = writes(spelled, len(PROMPT))
    engine = Engine(model, Guessing(lambda ids, count: ()), num_draft=8)
    done = engine.generate(PROMPT, grammar=Grammar.regex("say hello hello"), temperature=0)
    assert list(done.tokens) == [*spelled, END]
    assert 0 < done.stats.drafters["grammar"].accepted < done.stats.drafters["grammar"].drafted


@pytest.mark.parametrize("drafting", [False, True])
def test_a_grammar_that_leads_nowhere_ends_its_request_alone(drafting):
    """With an error of its own class, for it is the request's own fault."""
    nowhere = Grammar.lark('start: "a" x\nx: x "b"')
    options = {"max_tokens": 12, "seed": 5}
    alone = Engine(babbler()).generate(PROMPT, grammar=PERSON, **options)
    engine = Engine(babbler(), Guessing(lambda ids, count: ()) if drafting else None)
    bad, good = engine.generate_batch(
        [PROMPT] * 2, [{"grammar": nowhere, **options}, {"grammar": PERSON, **options}]
    )
    assert bad.finish_reason == "error"
    assert isinstance(bad.error, GrammarError)
    assert "position 6, slot" in str(bad.error)
    assert good.tokens == alone.tokens


def test_a_text_that_is_forced_for_ever_is_written_up_to_the_budget():
    forever = Grammar.regex("((a{1000}){1000}){1000}")
    engine = Engine(babbler(), Guessing(lambda ids, count: ()), num_draft=4)
    done = engine.generate(PROMPT, grammar=forever, max_tokens=12, seed=1)
    assert (done.finish_reason, done.text) == ("length", "a" * 12)
    assert done.stats.drafters["grammar"].accepted > 0


@pytest.mark.parametrize(
    ("model", "grammar", "message"),
    [
        (babbler, "a*", r"grammar takes a Grammar, such as Grammar.regex\(…\), not 'a\*'"),
        (babbler, Grammar.regex("("), "the regex cannot be used: .*unclosed group"),
        (lambda: says([1], 1, eos=2), PERSON, "a grammar needs a tokenizer, tabular has none"),
        (endless, PERSON, "a grammar needs an end token, tabular has"),
    ],
)
def test_bad_grammars_are_said_at_once(model, grammar, message):
    with pytest.raises(OptionError, match=f"(?s){message}"):
        Engine(model()).stream([1], grammar=grammar)
