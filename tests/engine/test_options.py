"""What is refused: the message says what would be right, and nothing stays open."""

from __future__ import annotations

import numpy as np
import pytest

from forerun import Engine, load
from forerun.drafters import ModelDrafter, NgramDrafter, PredictionDrafter
from forerun.drafters.base import DrafterTraits
from forerun.errors import (
    CapabilityError,
    ForerunError,
    OptionError,
    PromptError,
    UnknownNameError,
    VocabularyError,
)
from forerun.models.base import Abilities
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import Drawn

from .fakes import NONE_OPEN, Guessing, V, draft, open_slots, speaks, target

SOON = {"max_tokens": 3}


@pytest.fixture
def engine():
    """One that must be left as it was found, and still work."""
    made = Engine(target(context=20), ModelDrafter(draft()))
    yield made
    assert open_slots(made) == NONE_OPEN
    assert len(made.generate([0], **SOON).tokens) == 3


def refused(engine, error, message, prompt=(0,), **options):
    """By every way in, before the first token."""
    for call in (
        lambda: engine.generate(prompt, **options),
        lambda: engine.stream(prompt, **options),
        lambda: engine.generate_batch([[1], prompt], [{}, options]),
    ):
        with pytest.raises(error) as caught:
            call()
        assert message in str(caught.value)
        assert open_slots(engine) == NONE_OPEN


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "the prompt is empty and tabular has no beginning-of-text token"),
        ((), "give at least one token"),
        ([0, V], "token id 5 is not in the vocabulary of tabular: 0 to 4"),
        ([-1], "token id -1 is not in the vocabulary of tabular: 0 to 4"),
        ([0] * 20, "the prompt has 20 tokens; tabular has a context of 20"),
        ([0] * 99, "at most 19 leave room for an answer"),
        ("text", "tabular has no tokenizer: give the prompt as token ids"),
        ("", "tabular has no tokenizer"),
        ([{"role": "user", "content": "hi"}], "tabular has no tokenizer"),
        ([1.0], "a prompt is text, token ids, or chat messages; 1.0 is none of them"),
        ([[1, 2]], "[1, 2] is none of them"),
        (["a"], "'a' is none of them"),
        ([None], "None is none of them"),
    ],
)
def test_prompts(engine, prompt, message):
    refused(engine, PromptError, message, prompt)


@pytest.mark.parametrize(
    "prompt", [None, 5, 1.5, b"\1\2", {"role": "user", "content": "hi"}, {1, 2}]
)
def test_prompts_that_are_none(engine, prompt):
    refused(engine, PromptError, "a prompt is text, token ids, or chat messages", prompt)


@pytest.mark.parametrize("prompt", [(1, 2), np.array([1, 2]), range(1, 3), np.int8([1, 2])])
def test_prompts_of_other_sequences(engine, prompt):
    done = engine.generate(prompt, seed=1, **SOON)
    assert done.prompt == (1, 2)
    assert all(type(token) is int for token in (*done.prompt, *done.tokens))
    assert done.tokens == engine.generate([1, 2], seed=1, **SOON).tokens


def test_an_empty_prompt_with_a_tokenizer():
    def uniform(prefix):
        return [1 / 267] * 267

    with pytest.raises(PromptError, match="the prompt is empty"):
        Engine(speaks(uniform)).generate("")
    model = speaks(uniform)
    model.tokenizer = type(model.tokenizer).from_gguf(
        {**metadata(), "tokenizer.ggml.add_bos_token": True}
    )
    for prompt in ("", []):
        assert Engine(model).generate(prompt, **SOON).prompt == (1,)
    assert Engine(model).generate("h", **SOON).prompt[0] == 1
    assert Engine(model).generate([7], **SOON).prompt == (7,)  # ids are taken as they are


def metadata():
    from text.tiny import metadata

    return metadata()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature must be 0 (greedy) or from 1e-6 to 1e6"),
        ({"top_p": 0}, "top_p must be above 0 and at most 1 (1 is off), not 0"),
        ({"top_p": 1.5}, "top_p must be above 0"),
        ({"top_k": -1}, "top_k must be a whole number of at least 0 (0 is off), not -1"),
        ({"min_p": 2}, "min_p must be between 0 (off) and 1, not 2"),
        ({"max_tokens": 0}, "max_tokens must be a whole number of at least 1"),
        (
            {"num_draft": -1},
            "num_draft must be a whole number from 0 (plain decoding) to 64, or 'auto', not -1",
        ),
        ({"num_draft": 65}, "to 64, or 'auto', not 65"),
        ({"num_draft": 2.0}, "not 2.0"),
        ({"num_draft": True}, "not True"),
        ({"num_draft": None}, "not None"),
        ({"banned": [V]}, "banned names token id 5; tabular knows 0 to 4"),
        ({"banned": [-1]}, "banned takes token ids, whole numbers from 0 up, not -1"),
        ({"stop_ids": [9]}, "stop_ids names token id 9; tabular knows 0 to 4"),
        ({"logit_bias": {7: 1.0}}, "logit_bias names token id 7; tabular knows 0 to 4"),
        ({"stop": "x"}, "stop strings need a tokenizer, tabular has none: use stop_ids"),
        ({"seed": -1}, "seed must be None (a fresh one) or a whole number"),
    ],
)
def test_options(engine, options, message):
    refused(engine, OptionError, message, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 1}, "unknown sampling keyword 'temprature'; did you mean 'temperature'?"),
        ({"max_new_tokens": 1}, "unknown sampling keyword 'max_new_tokens'; did you mean 'max_tok"),
        ({"qqq": 1}, "unknown sampling keyword 'qqq'"),
        ({"eos": {1}}, "unknown sampling keyword 'eos'"),
    ],
)
def test_unknown_keywords(engine, options, message):
    refused(engine, TypeError, message, **options)


def test_unknown_verifiers(engine):
    message = "unknown verifier 'rejecton'; did you mean 'rejection'? Known: "
    refused(engine, UnknownNameError, message, verifier="rejecton")
    known = "auto, block, coupled, greedy_plus_one, recursive, rejection, traversal"
    with pytest.raises(UnknownNameError, match=f"Known: {known}"):
        Engine(target(), verifier="zzz")


@pytest.mark.parametrize("name", [None, 5, ["block"]])
def test_verifiers_that_are_no_names(engine, name):
    refused(engine, OptionError, "verifier", verifier=name)


def test_unknown_drafters():
    with pytest.raises(UnknownNameError, match="unknown drafter 'ngrm'; did you mean 'ngram'"):
        Engine(target(), "ngrm")
    with pytest.raises(OptionError, match="drafter 'model' needs a draft model"):
        Engine(target(), "model")
    with pytest.raises(OptionError, match="a model needs ModelDrafter"):
        Engine(target(), draft())


@pytest.mark.parametrize("model", ["smollm2", None, 5])
def test_a_target_that_is_no_model(model):
    with pytest.raises(OptionError, match=r"a Model.*load"):
        Engine(model)


@pytest.mark.parametrize("most", [0, -1, 1.5, True, None, "8"])
def test_max_batch(most):
    with pytest.raises(OptionError, match="max_batch must be a whole number of at least 1, not"):
        Engine(target(), max_batch=most)


@pytest.mark.parametrize("gamma", [-1, 65, 1.5, True, "4", None])
def test_num_draft_of_the_engine(gamma):
    with pytest.raises(OptionError, match="num_draft must be a whole number from 0"):
        Engine(target(), num_draft=gamma)


def test_params_of_a_batch(engine):
    with pytest.raises(OptionError, match="2 prompts but 1 params: give one for each"):
        engine.generate_batch([[0], [1]], [{}])
    with pytest.raises(OptionError, match="generate_batch takes a list of prompts"):
        engine.generate_batch("text")
    assert engine.generate_batch([]) == []
    shared = engine.generate_batch([[0], [0]], {"seed": 1, **SOON})
    each = engine.generate_batch([[0], [0]], [{"seed": 1, **SOON}, {"seed": 2, **SOON}])
    assert shared[0].tokens == shared[1].tokens == each[0].tokens
    assert [done.seed for done in each] == [1, 2]


def test_a_batch_is_checked_before_its_first_token(engine):
    seen = []

    def watching(ids, logits):
        seen.append(ids)
        return logits

    with pytest.raises(OptionError, match="top_k"):
        engine.generate_batch([[0], [1]], [{"processors": [watching]}, {"top_k": -2}])
    assert seen == []


# ------------------------------------------------------------------ parts that do not fit together


def test_a_draft_of_another_vocabulary():
    other = TabularModel(lambda prefix: [1 / 7] * 7, 7, name="other")
    with pytest.raises(VocabularyError, match="tabular has 5 tokens, other has 7"):
        Engine(target(), ModelDrafter(other))
    with pytest.raises(VocabularyError, match="the prediction holds id 9"):
        Engine(target(), PredictionDrafter([1, 9]))


def test_models_that_cannot_roll_back():
    fixed = target()
    fixed.abilities = Abilities(rollback=False)
    with pytest.raises(CapabilityError, match="tabular cannot roll back, so it cannot verify"):
        Engine(fixed, NgramDrafter())
    with pytest.raises(CapabilityError, match="its cache cannot roll back"):
        Engine(target(), ModelDrafter(fixed))


def test_drafters_of_trees():
    chains = target()
    chains.abilities = Abilities(trees=False)
    bushy = Guessing(lambda ids, count: [])
    bushy.traits = DrafterTraits(drawn=Drawn.WITHOUT_REPLACEMENT, laws=True, chain=False)
    with pytest.raises(CapabilityError, match="tabular reads no trees, guessing drafts them"):
        Engine(chains, bushy)
    for name in ("rejection", "block"):
        message = f"verifier '{name}' cannot judge what 'guessing' proposes, trees drawn without "
        message += "replacement; .*these can: coupled, recursive, greedy_plus_one, traversal"
        with pytest.raises(CapabilityError, match=message):
            Engine(target(), bushy, verifier=name)
        with pytest.raises(CapabilityError, match=message):
            Engine(target(), bushy).generate([0], verifier=name)
    for drawn, judge in (
        (Drawn.WITHOUT_REPLACEMENT, "traversal"),
        (Drawn.GREEDY_PLUS_ONE, "greedy_plus_one"),
        (Drawn.DETERMINISTIC, "coupled"),
    ):
        bushy.traits = DrafterTraits(drawn=drawn, laws=True, chain=False)
        assert Engine(target(), bushy).generate([0], max_tokens=2).verifier == judge
        for settled in ({"seed": 1}, {"temperature": 0}):
            done = Engine(target(), bushy).generate([0], max_tokens=2, **settled)
            assert done.verifier == "coupled"


def test_load():
    model = target()
    with pytest.raises(OptionError, match="drafter 'model' needs draft_model"):
        load(model, drafter="model")
    with pytest.raises(
        OptionError, match="draft_model goes with drafter 'model', not with 'ngram'"
    ):
        load(model, drafter="ngram", draft_model=draft())
    with pytest.raises(UnknownNameError, match="unknown drafter 'sufix'; did you mean 'suffix'"):
        load(model, drafter="sufix")
    engine = load(model, draft_model=draft(), verifier="block", num_draft=2, max_batch=3)
    assert isinstance(engine.drafter, ModelDrafter)
    assert (engine.target, engine.verifier, engine.num_draft) == (model, "block", 2)
    assert load(model).drafter is None


def test_every_refusal_is_a_forerun_error():
    for error in (CapabilityError, OptionError, PromptError, UnknownNameError, VocabularyError):
        assert issubclass(error, ForerunError)
