"""Logprobs are those of the model's raw logits, and the same however a text was decoded."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from engine.fakes import V, drafters, follows, letters, says, target, writes
from forerun import Engine
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import ModelDrafter
from forerun.errors import LawError, OptionError
from forerun.models.base import Step
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS

PROMPT = (0, 1, 2, 3, 0, 1)


def scores(model, ids, start, top):
    """Of ids[start:], one pass for each, by definition."""
    slot = model.open()
    found = []
    for i in range(start, len(ids)):
        model.keep(slot, 0)
        row = model.extend([Step(slot=slot, tokens=ids[:i], rows=1)])[0][-1].astype(np.float64)
        p = row - row.max() - math.log(np.exp(row - row.max()).sum())
        order = [x for x in sorted(range(len(p)), key=lambda x: (-p[x], x)) if p[x] > -np.inf]
        found.append((ids[i], p[ids[i]], tuple((x, p[x]) for x in order[:top])))
    model.close(slot)
    return found


def check(found, expected):
    assert len(found) == len(expected)
    for one, (token, logprob, top) in zip(found, expected):
        assert one.token == token
        assert one.logprob == pytest.approx(logprob, abs=1e-12)
        assert [i for i, _ in one.top] == [i for i, _ in top]
        assert [p for _, p in one.top] == pytest.approx([p for _, p in top], abs=1e-12)


SHAPED = {
    "temperature": 1.7, "top_p": 0.95, "repetition_penalty": 1.3, "presence_penalty": 0.4,
    "frequency_penalty": -0.2, "logit_bias": {1: 0.7}, "banned": [4], "min_tokens": 3,
    "stop_ids": [3],
}  # fmt: skip


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("drafter", drafters())
@pytest.mark.parametrize("sampling", [{}, SHAPED, {"temperature": 0}], ids=["", "shaped", "greedy"])
def test_they_are_of_the_raw_logits(drafter, verifier, sampling):
    """Accepted, corrected and bonus tokens alike; what shapes the law does not show in them."""
    model = target()
    engine = Engine(model, drafters()[drafter](), verifier="auto", num_draft=3)
    options = {"max_tokens": 20, "logprobs": 3, "seed": 5, "verifier": verifier, **sampling}
    done = engine.generate(PROMPT, **options)
    check(done.logprobs, scores(model, [*PROMPT, *done.tokens], len(PROMPT), 3))
    by_round = [r.logprobs for r in done.trace]
    assert [len(r.tokens) for r in done.trace] == list(map(len, by_round))
    assert tuple(itertools.chain(*by_round)) == done.logprobs


@pytest.mark.parametrize("num_draft", [1, 2, 3, 5, "auto"])
def test_they_are_plain_decodings_bit_for_bit(num_draft):
    model = target()
    asked = {"max_tokens": 24, "seed": 7, "logprobs": 2, "verifier": "coupled"}
    plain = Engine(model).generate(PROMPT, **asked)
    for make in drafters().values():
        engine = Engine(model, make(), num_draft=num_draft)
        found = engine.generate_batch([PROMPT, PROMPT[:3], PROMPT], [asked, {"seed": 1}, asked])
        assert found[0].tokens == found[2].tokens == plain.tokens
        assert found[0].logprobs == found[2].logprobs == plain.logprobs
        assert found[1].logprobs is None


def test_streams_deliver_them_with_their_tokens():
    engine = Engine(target(), drafters()["its own model"](), num_draft=3)
    asked = {"max_tokens": 12, "seed": 3, "logprobs": 1}
    with engine.stream(PROMPT, **asked) as stream:
        pieces = list(stream)
        done = stream.done
    assert [[one.token for one in p.logprobs] for p in pieces] == [list(p.tokens) for p in pieces]
    assert tuple(one for p in pieces for one in p.logprobs) == done.logprobs
    assert done.logprobs == engine.generate(PROMPT, **asked).logprobs


def test_nobody_asked_nobody_is_told():
    done = Engine(target()).generate(PROMPT, max_tokens=3)
    assert done.logprobs is None
    assert done.prompt_logprobs is None
    assert all(r.logprobs is None for r in done.trace)


def test_without_the_likeliest():
    done = Engine(target()).generate(PROMPT, max_tokens=3, logprobs=0)
    assert [one.top for one in done.logprobs] == [(), (), ()]


@pytest.mark.parametrize("end", range(1, 9))
def test_they_end_with_the_tokens(end):
    """An end token, a stop string, and the budget, at each place of a round of five drafts."""
    text = [*letters("abcdefgh")[: end - 1], 2]
    guesses = [*text, *letters("xxxxxxx")]
    cases = [
        (writes(text[:-1], 3), {"max_tokens": 30}),
        (writes(letters("abcdefghij"), 3), {"max_tokens": 30, "stop": ["abcdefghij"[:end]]}),
        (writes(letters("abcdefghij"), 3), {"max_tokens": end}),
    ]
    for model, options in cases:
        engine = Engine(model, follows(guesses, 3), num_draft=5)
        done = engine.generate([4, 4, 4], logprobs=1, temperature=0, **options)
        assert len(done.tokens) == end
        assert [one.token for one in done.logprobs] == list(done.tokens)
        assert [one.logprob for one in done.logprobs] == [0.0] * end


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_asking_changes_no_law(verifier):
    common = {"prompt": (0, 1), "max_tokens": 3}
    model = target()
    found = exact_law(
        model, drafters()["model"](), verifier=verifier, num_draft=2, **common, logprobs=2,
        prompt_logprobs=1,
    )  # fmt: skip
    assert total_variation(found, plain_law(model, **common)) < 1e-12


# ------------------------------------------------------------------ prompts


@pytest.mark.parametrize("length", [1, 2, 3, 64, 65, 66, 130])
def test_a_prompts_logprobs(length):
    model = target()
    prompt = [(7 * i * i + 3) % V for i in range(length)]
    done = Engine(model).generate(prompt, max_tokens=2, prompt_logprobs=2, seed=1)
    assert done.prompt_logprobs[0] is None
    check(done.prompt_logprobs[1:], scores(model, prompt, 1, 2))
    assert done.tokens == Engine(model).generate(prompt, max_tokens=2, seed=1).tokens


def test_a_prompts_logprobs_alone():
    """max_tokens 0: the prompt is read, and that is all."""
    model = target()
    engine = Engine(model, drafters()["model"]())
    done = engine.generate(PROMPT, max_tokens=0, prompt_logprobs=0)
    assert (done.tokens, done.finish_reason, done.trace, done.text) == ((), "length", (), "")
    check(done.prompt_logprobs[1:], [(t, p, ()) for t, p, _ in scores(model, PROMPT, 1, 0)])
    assert not model._cached
    with engine.stream(PROMPT, max_tokens=0, prompt_logprobs=0, logprobs=1) as stream:
        assert list(stream) == []
        assert stream.done.prompt_logprobs == done.prompt_logprobs
        assert stream.done.logprobs == ()


def test_a_prompt_token_that_the_model_rules_out():
    done = Engine(says([1, 2], 1)).generate([0, 1, 3], max_tokens=1, prompt_logprobs=1)
    assert [one.logprob for one in done.prompt_logprobs[1:]] == [0.0, -math.inf]


def test_never_all_rows_of_a_prompt_at_once():
    class Counting(TabularModel):
        most = 0

        def extend(self, steps):
            rows = super().extend(steps)
            self.most = max(self.most, sum(map(len, rows)))
            return rows

    model = Counting(target()._next_law, V)
    Engine(model).generate([1] * 500, max_tokens=1, prompt_logprobs=1)
    assert 1 < model.most <= 64
    model.most = 0
    Engine(model).generate([1] * 500, max_tokens=1)
    assert model.most == 1


def test_a_prompt_whose_logits_are_no_law():
    class Broken(TabularModel):
        def _row(self, prefix):
            p = super()._row(prefix)
            return p * math.nan if len(prefix) == 3 else p

    model = Broken(target()._next_law, V)
    assert Engine(model).generate(PROMPT, max_tokens=2).finish_reason == "length"
    good, bad = Engine(model).generate_batch(
        [PROMPT, PROMPT], [{"max_tokens": 2}, {"max_tokens": 2, "prompt_logprobs": 1}]
    )
    assert good.finish_reason == "length"
    assert (bad.finish_reason, len(bad.prompt_logprobs)) == ("error", 3)
    with pytest.raises(LawError, match=r"tabular, position 3, slot \d: the logits hold NaN"):
        raise bad.error


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
@pytest.mark.parametrize("value", [-1, 21, 1.0, True, "2"])
def test_bad_counts(name, value):
    message = f"{name} must be None or a whole number from 0 to 20 .*, not {value!r}"
    with pytest.raises(OptionError, match=message):
        Engine(target()).generate(PROMPT, **{name: value})


def test_no_tokens_without_logprobs_of_the_prompt():
    with pytest.raises(OptionError, match=r"at least 1, not 0 \(which asks for prompt_logprobs"):
        Engine(target()).generate(PROMPT, max_tokens=0)


def test_logits_that_only_a_processor_makes_a_law():
    """The raw ones have no logprobs; the request ends with an error, the other goes on."""

    class Broken(TabularModel):
        def _row(self, prefix):
            p = super()._row(prefix)
            return p * math.nan if len(prefix) == len(PROMPT) + 1 else p

    model = Broken(target()._next_law, V)
    repairing = {"processors": [lambda ids, l: np.nan_to_num(l)], "max_tokens": 4}
    plain, asked = Engine(model, ModelDrafter(target()), num_draft=2).generate_batch(
        [PROMPT, PROMPT], [repairing, {**repairing, "logprobs": 1}]
    )
    assert plain.finish_reason == "length"
    assert asked.finish_reason == "error"
    assert f"position {len(PROMPT) + 1}" in str(asked.error)
