"""Blocks that go all right or all wrong, and laws that change within a block."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forerun import Engine
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS

from .fakes import NONE_OPEN, Guessing, V, consistent, draft, open_slots, target

PROMPT = [0, 1]
each_verifier = pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])


@each_verifier
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_draft_that_is_the_target_is_always_right(seed, temperature, verifier):
    for gamma in (1, 2, 4):
        engine = Engine(target(), ModelDrafter(draft(1)), num_draft=gamma)
        done = engine.generate(
            PROMPT, max_tokens=31, seed=seed, temperature=temperature, verifier=verifier
        )
        consistent(done)
        assert done.stats.acceptance_rate == 1
        assert done.stats.rounds == math.ceil(31 / (gamma + 1))
        assert done.stats.corrected == 0


@each_verifier
@pytest.mark.parametrize("gamma", [1, 3])
def test_an_adversarial_drafter_is_always_wrong(gamma, verifier):
    """Tokens that the target never says, drafted with certainty or from a law."""
    model = TabularModel(lambda prefix: [0.0, 0.0, 0.2, 0.3, 0.5], V)
    wrong = TabularModel(lambda prefix: [0.5, 0.5, 0.0, 0.0, 0.0], V, name="draft")
    for drafter in (ModelDrafter(wrong), Guessing(lambda ids, count: [len(ids) % 2] * count)):
        engine = Engine(model, drafter, num_draft=gamma)
        done = engine.generate(PROMPT, max_tokens=12, seed=2, verifier=verifier)
        consistent(done)
        assert (done.stats.accepted, done.stats.rounds) == (0, 12)
        assert (done.stats.corrected, done.stats.bonus) == (11, 1)  # no room to draft for the last
        assert set(done.tokens) <= {2, 3, 4}


@each_verifier
def test_a_poor_drafter_one_token_at_a_time(verifier):
    """γ = 1, T > 0: much rejected, and the law is the target's."""
    model = TabularModel(lambda prefix: [0.85, 0.1, 0.05], 3)
    poor = TabularModel(lambda prefix: [0.05, 0.15, 0.8], 3, name="draft")
    common = {"prompt": [0], "max_tokens": 3, "temperature": 1.3}
    found = exact_law(model, ModelDrafter(poor), verifier=verifier, num_draft=1, **common)
    assert total_variation(found, plain_law(model, **common)) < 1e-12


# ------------------------------------------------------------------ laws within a block


def softmax(logits):
    w = np.exp(logits - np.max(logits))
    return w / w.sum()


@each_verifier
@pytest.mark.parametrize(
    "control",
    [
        {"presence_penalty": 0.9},
        {"presence_penalty": -0.9},
        {"frequency_penalty": 0.7},
        {"frequency_penalty": -0.7},
        {"repetition_penalty": 1.8},
        {"repetition_penalty": 0.6},
    ],
    ids=lambda control: "{} {}".format(*next(iter(control.items()))),
)
def test_a_token_repeated_within_a_block_under_penalties(control, verifier):
    """Each repeat is judged by the law that those before it leave, worked out here by hand."""
    base = np.log([0.3, 0.1, 0.25, 0.15, 0.2])
    model = TabularModel(lambda prefix: np.exp(base), V)
    engine = Engine(model, Guessing(lambda ids, count: [2] * count), num_draft=4)
    done = engine.generate(PROMPT, max_tokens=40, seed=5, verifier=verifier, **control)
    consistent(done)
    for record in done.trace:
        output = list(done.tokens[: record.position - 2])
        for drafted in record.drafted:
            logits = base.copy()
            for token in range(V):
                n = output.count(token)
                if "repetition_penalty" in control and token in (*PROMPT, *output):
                    logits[token] *= control["repetition_penalty"]  # all are below 0
                logits[token] -= control.get("presence_penalty", 0) * (n > 0)
                logits[token] -= control.get("frequency_penalty", 0) * n
            assert drafted.p == pytest.approx(softmax(logits)[2], rel=1e-12)
            output.append(2)
    assert any(record.kinds.count("accepted") >= 2 for record in done.trace) or done.stats.drafted


@each_verifier
@pytest.mark.parametrize("temperature", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("control", [{"banned": [2]}, {"logit_bias": {2: -100}}])
def test_a_ban_on_the_token_that_everybody_loves(control, temperature, verifier):
    model = TabularModel(lambda prefix: [0.01, 0.01, 0.96, 0.01, 0.01], V)
    lovers = [
        Guessing(lambda ids, count: [2] * count),
        ModelDrafter(model),  # its q obeys the ban
        ModelDrafter(model, sampling={"banned": (), "logit_bias": {}}),  # its q does not
        NgramDrafter(),
        SuffixDrafter(),
    ]
    for drafter in lovers:
        engine = Engine(model, drafter, num_draft=3)
        done = engine.generate(
            [2, 2, 2, 2],
            max_tokens=60,
            seed=1,
            verifier=verifier,
            temperature=temperature,
            **control,
        )
        consistent(done)
        assert 2 not in done.tokens
        loved = [d for record in done.trace for d in record.drafted if d.token == 2]
        assert all(d.p < 1e-15 and not d.accepted for d in loved)
        if drafter is lovers[0] or drafter is lovers[2]:
            assert len(loved) > 20


@each_verifier
def test_a_bias_that_forces_a_token(verifier):
    engine = Engine(target(), ModelDrafter(draft()), num_draft=3)
    done = engine.generate(PROMPT, max_tokens=20, verifier=verifier, logit_bias={3: 500})
    assert done.tokens == (3,) * 20
    assert done.stats.acceptance_rate == 1


# ------------------------------------------------------------------ little to go on


@each_verifier
@pytest.mark.parametrize(
    "drafter", [NgramDrafter(longest=6, shortest=4), SuffixDrafter(), ModelDrafter(draft())]
)
@pytest.mark.parametrize("prompt", [[3], [3, 1]])
def test_prompts_of_one_token_and_shorter_than_the_ngram(prompt, drafter, verifier):
    engine = Engine(target(), drafter, num_draft=3)
    done = engine.generate(prompt, max_tokens=15, seed=8, verifier=verifier)
    consistent(done)
    assert (done.prompt, len(done.tokens)) == (tuple(prompt), 15)
    if verifier in ("coupled", "auto"):
        assert done.tokens == Engine(target()).generate(prompt, max_tokens=15, seed=8).tokens
    assert open_slots(engine) == NONE_OPEN


@each_verifier
def test_a_lookup_without_a_match_is_plain_decoding(verifier):
    counting = TabularModel(lambda prefix: np.eye(40)[len(prefix)], 40)
    for drafter in (NgramDrafter(), SuffixDrafter()):
        done = Engine(counting, drafter).generate([0, 1, 2], max_tokens=30, verifier=verifier)
        assert done.tokens == tuple(range(3, 33))
        assert (done.stats.drafted, done.stats.bonus, done.stats.rounds) == (0, 30, 30)


@each_verifier
def test_a_lookup_with_a_match_is_followed(verifier):
    """Guard of the test above: where a text repeats itself, lookup drafts do get accepted."""
    looping = TabularModel(lambda prefix: np.eye(4)[len(prefix) % 4], 4)
    for drafter in (NgramDrafter(), SuffixDrafter()):
        done = Engine(looping, drafter).generate([0, 1, 2, 3] * 2, max_tokens=30, verifier=verifier)
        assert done.tokens == tuple(i % 4 for i in range(30))
        assert done.stats.acceptance_rate == 1
        assert done.stats.rounds < 10
