"""An answer cut anywhere goes on as if it had not been: at another engine, with another drafter."""

from __future__ import annotations

import itertools

import pytest

from certify.tables import table
from forerun import Engine, Grammar
from forerun.drafters import ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.engine import Resume
from forerun.errors import OptionError
from forerun.numerics.randomness import KeyedDraws
from forerun.verifiers import VERIFIERS

from .fakes import (
    END,
    NONE_OPEN,
    TOKENS,
    V,
    consistent,
    draft,
    drafters,
    follows,
    letters,
    open_slots,
    speaks,
    target,
    trees,
    writes,
)  # fmt: skip

PROMPT = [0, 1]
CONTROLS = {
    "plain": {},
    "greedy": {"temperature": 0},
    "penalties": {"repetition_penalty": 1.4, "presence_penalty": 0.6, "frequency_penalty": -0.5},
    "min_tokens": {"min_tokens": 9},
    "choice": {},
}


def at_every_cut(model, make_drafter, prompt, options, choice=0):
    """Each resumption's whole, beside what came without a cut."""
    n = choice + 1
    whole = Engine(model).generate_choices(prompt, n, **options, num_draft=0)[choice]
    shown = Engine(model).submit_choices(prompt, n, **options, num_draft=0)[choice]
    texts = [piece.text for piece in shown]
    engine = Engine(model, make_drafter(), num_draft=3)
    for cut in range(len(whole.tokens) + 1):
        known = None if whole.logprobs is None else whole.logprobs[:cut]
        resume = Resume(output=whole.tokens[:cut], choice=choice, logprobs=known)
        stream = engine.stream(prompt, resume=resume, **options)
        pieces = list(stream)
        done = stream.done
        written = tuple(itertools.chain(*(piece.tokens for piece in pieces)))
        assert done.tokens == (*whole.tokens[:cut], *written) == whole.tokens
        assert (done.text, done.finish_reason) == (whole.text, whole.finish_reason)
        assert "".join(texts[:cut]) + "".join(piece.text for piece in pieces) == whole.text
        assert all("".join(text for text, _ in p.parts) == p.text for p in pieces)
        assert (done.usage, done.logprobs) == (whole.usage, whole.logprobs)
        assert (done.prompt, done.prompt_logprobs) == (whole.prompt, whole.prompt_logprobs)
        assert [record.index for record in done.trace] == list(range(cut, cut + len(pieces)))
        consistent(done, sent=cut)
    assert open_slots(engine) == NONE_OPEN


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("name", {**drafters(), **trees()})
def test_the_same_tokens_behind_every_cut(name, control):
    options = {"max_tokens": 12, "seed": 5, "verifier": "coupled", **CONTROLS[control]}
    make = {**drafters(), **trees()}[name]
    at_every_cut(target(eos=4), make, PROMPT, options, choice=2 if control == "choice" else 0)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_greedy_goes_on_under_any_verifier(verifier):
    options = {"max_tokens": 9, "temperature": 0, "seed": 1, "verifier": verifier}
    at_every_cut(target(), lambda: None, PROMPT, options)


@pytest.mark.parametrize(
    "options",
    [{}, {"stop": ["🦊b", "xy"]}, {"stop": "🦊bc"}, {"stop": "never🦊"}, {"max_tokens": 4}],
    ids=str,
)
def test_text_is_cut_in_characters_and_in_stop_strings(options):
    ids = letters("xa🦊🦊bx🦊bc")
    options = {"temperature": 0, "max_tokens": 40, **options}
    at_every_cut(writes(ids, 1), lambda: follows([*ids, END], 1), letters("?"), options)


def test_logprobs_go_on():
    options = {"max_tokens": 8, "seed": 3, "logprobs": 2, "prompt_logprobs": 1}
    at_every_cut(target(), NgramDrafter, PROMPT, options)


def test_a_grammar_goes_on():
    pytest.importorskip("llguidance")
    grammar = Grammar.regex(r"(ab|ba){2,4}!")
    options = {"max_tokens": 20, "seed": 2, "grammar": grammar}
    at_every_cut(speaks(table(TOKENS.vocab_size, 1)), SuffixDrafter, letters("?"), options)


def test_no_coin_is_tossed_twice(monkeypatch):
    """Under verifiers that toss coins, keys before and behind a cut have no part in common."""
    keys: list[set] = []
    noise = KeyedDraws._noise

    def noted(self, index, node, purpose, epoch):
        keys[-1].add(found := noise(self, index, node, purpose, epoch))
        return found

    monkeypatch.setattr(KeyedDraws, "_noise", noted)
    engine = Engine(target(), ModelDrafter(draft()), verifier="block", num_draft=3)
    keys.append(set())
    with engine.stream(PROMPT, max_tokens=30) as stream:
        sent = [*next(stream).tokens, *next(stream).tokens]
        seed = stream.cancel().seed
    for epoch in (1, 2):
        keys.append(set())
        resume = Resume(output=sent, seed=seed, epoch=epoch)
        done = engine.generate(PROMPT, max_tokens=30, resume=resume)
        assert done.seed == seed
    assert all(len(some) > 10 for some in keys)
    assert all(not a & b for a, b in itertools.combinations(keys, 2))


def test_cached_tokens_are_the_prompts():
    engine = Engine(target(), prefix_memory=1 << 20)
    prompt = [0, 1, 2, 3] * 40
    whole = engine.generate(prompt, max_tokens=80, temperature=0)
    resume = Resume(output=whole.tokens[:75])
    done = engine.generate(prompt, max_tokens=80, temperature=0, resume=resume)
    assert done.tokens == whole.tokens
    assert 0 < done.cached_tokens <= len(prompt)


@pytest.mark.parametrize("verifier", [name for name in VERIFIERS if name != "coupled"])
def test_a_seeds_text_that_hangs_on_rounds_cannot_go_on(verifier):
    engine = Engine(target(), verifier=verifier)
    options = {"seed": 9, "max_tokens": 6}
    with pytest.raises(OptionError, match=rf"under verifier '{verifier}' seed 9 promises a text"):
        engine.generate(PROMPT, resume=Resume(output=[1]), **options)
    begun = engine.generate(PROMPT, resume=Resume(output=(), epoch=0), **options)
    assert begun.tokens == engine.generate(PROMPT, **options).tokens


@pytest.mark.parametrize(
    ("resume", "message"),
    [
        ([1, 2], r"resume takes a Resume\(output=…\), not \[1, 2\]"),
        (Resume(output=[V]), "resume: 5 is no token id of tabular: 0 to 4"),
        (Resume(output=[True]), "resume: True is no token id"),
        (Resume(output=[4, 1]), "its output of 2 tokens goes on behind the answer's end"),
        (Resume(output=[1] * 7), "its output of 7 tokens goes on behind the answer's end"),
    ],
)
def test_outputs_that_cannot_be(resume, message):
    engine = Engine(target(eos=4))
    with pytest.raises(OptionError, match=message):
        engine.generate(PROMPT, max_tokens=6, resume=resume)
    assert open_slots(engine) == NONE_OPEN


def test_other_refusals():
    engine = Engine(writes(letters("abab"), 1))
    with pytest.raises(OptionError, match="logprobs are asked for, so give those of its 2 tokens"):
        engine.generate("?", resume=Resume(output=letters("ab")), logprobs=0)
    with pytest.raises(OptionError, match="goes on behind a stop string"):
        engine.generate("?", resume=Resume(output=letters("abab")), stop="ab")
    with pytest.raises(OptionError, match="n must be 1, not 2"):
        engine.generate_choices("?", 2, resume=Resume(output=letters("ab")))
    for wrong in ({"choice": -1}, {"epoch": 2**32}, {"seed": 2**128}, {"epoch": None}):
        with pytest.raises(OptionError, match=r"resume: \w+ must be a whole number from 0"):
            Resume(output=(), **wrong)
    assert open_slots(engine) == NONE_OPEN
