"""Each mutant of the round, run for real, is found by its tokens alone; the right code is not.

The faults are those of `test_mutants.py`, which enumerates them. Here the engine writes texts on
tiny models, and what is known is p, and q where the drafter says it.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import forerun.decode
import forerun.engine.request
import forerun.laws
import forerun.numerics.randomness
import forerun.verifiers.block
import forerun.verifiers.rejection
from certify import test_mutants as mutants
from certify.tables import LONG, PROMPT, Remembering, draft_model, table, target
from forerun import Engine
from forerun.certify import assert_lossless, tiny
from forerun.certify.alternatives import bfloat16
from forerun.certify.engines.base import sample_seed
from forerun.certify.law_test import LawTest
from forerun.cli.chat import turn_seed
from forerun.drafters import ModelDrafter, NgramDrafter, PredictionDrafter
from forerun.errors import NotLosslessError
from forerun.models.tabular import TabularModel
from forerun.numerics.acceptance import acceptance, mass
from forerun.numerics.distribution import History
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.verifiers import VERIFIERS

TOKENS = 60_000
"""About a minute of this engine: a fifth of what a fault may take to be found."""


def found(
    *, verifier, drafter=None, model=None, draft=None, num_draft=2, max_tokens=6, tokens=TOKENS,
    costs=None, prompt=PROMPT, **sampling,
):  # fmt: skip
    """Whether a fault is found in an engine's tokens."""
    model = target(3) if model is None else model
    draft = draft_model(3) if draft is None else draft
    drafter = ModelDrafter(draft) if drafter is None else drafter
    plain = TabularModel(model._next_law, model.vocab_size, model.eos)
    with Engine(model, drafter, num_draft=num_draft, costs=costs) as engine:

        def sample(prompt, n, asked, seed):
            options = [
                {**asked, "seed": sample_seed(seed, i), "verifier": verifier} for i in range(n)
            ]
            done = engine.generate_batch([list(prompt)] * n, params=options)
            if errors := [each.error for each in done if each.error]:
                raise errors[0]
            return [each.tokens for each in done]

        try:
            assert_lossless(
                sample, plain, draft=draft, prompts=[prompt],
                sampling=sampling, max_tokens=max_tokens, samples=16, tokens=tokens,
            )  # fmt: skip
        except NotLosslessError:
            return True
        return False


@pytest.fixture
def faulty(monkeypatch):
    """Register a faulty verifier by the name "faulty"."""
    return lambda verifier: monkeypatch.setitem(VERIFIERS, "faulty", verifier)


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_the_right_code_is_right(verifier):
    assert not found(verifier=verifier, tokens=3000)


@pytest.mark.parametrize("verifier", ["rejection", "block"])
@pytest.mark.parametrize(
    ("report", "options"),
    [(mutants.another_temperature, {}), (mutants.softmax, {"sampling": {"temperature": 0}})],
    ids=["q of another temperature", "argmax draft scored with its softmax"],
)
def test_q_other_than_the_law_sampled_from(report, options, verifier):
    assert found(verifier=verifier, drafter=mutants.Misreporting(report, **options))


def test_a_bonus_from_the_draft(faulty):
    faulty(mutants.BonusFromDraft)
    assert found(verifier="faulty")


def test_block_verification_that_stops_at_the_first_failure(faulty):
    faulty(mutants.FirstFailure)
    assert found(verifier="faulty")


@pytest.mark.parametrize("name", ["rejection", "block"])
def test_resampling_from_p(name, monkeypatch):
    module = getattr(forerun.verifiers, name)
    monkeypatch.setattr(module, "residual", lambda p, q, token, scale=1.0: p)
    assert found(verifier=name)


def test_acceptance_times_0_8(monkeypatch):
    monkeypatch.setattr(
        forerun.verifiers.rejection, "acceptance", lambda p, q, x: 0.8 * acceptance(p, q, x)
    )
    assert found(verifier="rejection")


@pytest.mark.long
def test_block_acceptance_times_0_8(monkeypatch):
    """A text's first token is off by .03, and the later ones the other way: 17,000 at the least."""
    excess = forerun.verifiers.block.excess
    monkeypatch.setattr(
        forerun.verifiers.block, "excess", lambda p, q, x, scale: 0.8 * excess(p, q, x, scale)
    )
    assert found(verifier="block", max_tokens=3, tokens=300_000)


def test_lenience_0_95(monkeypatch):
    monkeypatch.setattr(
        forerun.verifiers.rejection,
        "acceptance",
        lambda p, q, x: min(acceptance(p, q, x) / 0.95, 1.0),
    )
    model = TabularModel(lambda prefix: (0.5, 0.3, 0.2), 3)
    draft = TabularModel(lambda prefix: (0.6, 0.37, 0.03), 3)
    assert found(verifier="rejection", model=model, draft=draft)


def test_acceptance_by_a_threshold(monkeypatch):
    monkeypatch.setattr(
        forerun.verifiers.rejection, "acceptance", lambda p, q, x: float(mass(p, x) > 0.3)
    )
    assert found(verifier="rejection")


def test_a_coin_that_accepts_what_has_no_mass(monkeypatch):
    model = TabularModel(lambda prefix: (0.0, 0.4, 0.6), 3)
    monkeypatch.setattr(
        forerun.verifiers.rejection, "acceptance", lambda p, q, x: max(acceptance(p, q, x), 0.005)
    )
    assert found(verifier="rejection", model=model)


@pytest.mark.parametrize("verifier", ["rejection", "coupled"])
def test_keep_off_by_one(verifier):
    assert found(verifier=verifier, model=mutants.KeepsRejected(target(3)._next_law, 3))


def test_pages_that_are_not_the_texts_own():
    class Faulty(mutants.TheLastOfAPage, Remembering):
        pass

    options = {"draft": draft_model(2), "prompt": LONG, "max_tokens": 3}
    for kind, fails in ((Remembering, False), (Faulty, True)):
        model = kind(table(2, 1), 2, None, [(*LONG[:66], 0, 0)])
        assert found(verifier="rejection", model=model, tokens=2000, **options) == fails


@pytest.mark.parametrize("penalty", [{"repetition_penalty": 1.8}, {"frequency_penalty": 0.8}])
def test_penalties_with_stale_history(penalty, monkeypatch):
    monkeypatch.setattr(
        forerun.laws,
        "History",
        lambda ids, prompt_length, path: History(tuple(ids), prompt_length),
    )
    assert found(verifier="rejection", prompt=(0,), **penalty)


def test_min_tokens_with_stale_history(monkeypatch):
    monkeypatch.setattr(
        forerun.laws,
        "History",
        lambda ids, prompt_length, path: History(tuple(ids), prompt_length),
    )
    assert found(verifier="rejection", model=target(3, eos=2), min_tokens=2)


def test_an_end_that_is_passed_over(monkeypatch):
    commit = forerun.decode.commit

    def overrun(g, proposal, verdict):
        kinds = commit(g, proposal, verdict)
        if g.finish_reason == "stop" and len(g.ids) < g.limit:
            g.ids.append(verdict.token)
        return kinds

    monkeypatch.setattr(forerun.decode, "commit", overrun)
    monkeypatch.setattr(forerun.decode, "keep", lambda *_: None)
    assert found(verifier="rejection", model=target(3, eos=2))


def test_a_draft_length_that_looks_at_the_drafted_token():
    class Peeking(ModelDrafter):
        def propose(self, requests):
            return [self.cut(proposal) for proposal in super().propose(requests)]

        def cut(self, proposal):
            drawn = zip(proposal.q, proposal.tree.tokens)
            n = len(list(itertools.takewhile(lambda pair: pair[0][pair[1]] > 0.4, drawn)))
            tree = type(proposal.tree).chain(proposal.tree.tokens[:n])
            return Proposal(tree=tree, q=proposal.q[:n], drawn=Drawn.SAMPLED)

    assert found(verifier="rejection", drafter=Peeking(draft_model(3)))


def test_control_that_looks_at_the_drafted_token(monkeypatch):
    propose = forerun.decode.propose

    def peeking(*args):
        return [
            dataclasses.replace(draft, proposal=mutants.likely(draft.proposal))
            for draft in propose(*args)
        ]

    monkeypatch.setattr(forerun.decode, "propose", peeking)
    assert found(verifier="rejection", num_draft="auto", costs=mutants.COSTS)


def test_a_drafter_chosen_by_what_was_sampled():
    peeking = mutants.Mixture(
        lambda sampled, copied: (
            sampled if len(mutants.likely(sampled)) or not len(copied) else copied
        )
    )
    assert found(verifier="rejection", drafter=peeking)


def test_a_copied_draft_that_passes_for_a_sampled_one():
    def mislabelled(sampled, copied):
        n = min(len(sampled), len(copied))
        tree = copied.first(n).tree
        return Proposal(tree=tree, q=sampled.q[:n], drawn=Drawn.SAMPLED)

    assert found(verifier="rejection", drafter=mutants.Mixture(mislabelled))


# ------------------------------------------------------------------ noise used twice


@pytest.mark.parametrize("name", ["a coin for the residual", "a round that is not counted"])
def test_noise_used_twice(name, faulty, monkeypatch):
    faulty(mutants.CoinForResidual)
    monkeypatch.setattr(forerun.engine.request, "KeyedDraws", mutants.Unchecked)
    if name == "a round that is not counted":
        monkeypatch.setattr(forerun.engine.request, "Generation", mutants.StandingRound)
    verifier = "faulty" if name == "a coin for the residual" else "block"
    model = TabularModel(table(3, 1), 3)
    assert found(verifier=verifier, model=model)


def test_drafts_redrawn_from_the_last_rounds_noise(monkeypatch):
    monkeypatch.setattr(forerun.engine.request, "KeyedDraws", mutants.DraftNoiseByPosition)
    model = TabularModel(lambda prefix: (0.4, 0.6), 2)
    draft = TabularModel(lambda prefix: (0.8, 0.2), 2)
    assert found(verifier="block", model=model, draft=draft, max_tokens=3)


def fails(sample, model, *, prompts, max_tokens):
    try:
        assert_lossless(
            sample, model, prompts=prompts, max_tokens=max_tokens, samples=16, tokens=12_000
        )
    except NotLosslessError:
        return True
    return False


@pytest.mark.parametrize(("verifier", "fault"), [("rejection", True), ("coupled", False)])
def test_a_drafter_that_remembers_the_same_seeds_earlier_output(verifier, fault):
    model = TabularModel(table(2, 1), 2)
    first = Engine(model, ModelDrafter(draft_model(2)), num_draft=2)

    def sample(prompt, n, asked, seed):
        written = []
        for i in range(n):
            options = {**asked, "seed": sample_seed(seed, i), "verifier": verifier}
            earlier = first.generate(list(prompt), **options)
            again = Engine(model, PredictionDrafter(earlier.tokens), num_draft=2)
            written.append(again.generate(list(prompt), **options).tokens)
        return written

    assert fails(sample, model, prompts=[PROMPT], max_tokens=4) == fault


@pytest.mark.parametrize(("same", "fault"), [(True, True), (False, False)])
def test_a_prompt_that_stems_from_the_same_seed(same, fault):
    """An answer and the next turn's, whose prompt it is; the law looks at no prefix."""
    model = TabularModel(lambda prefix: (0.6, 0.4), 2)
    engine = Engine(model, NgramDrafter(), num_draft=2)

    def sample(prompt, n, asked, seed):
        written = []
        for i in range(n):
            own = sample_seed(seed, i)
            turns = (own, own) if same else (turn_seed(own, 0), turn_seed(own, 1))
            options = {"verifier": "rejection", "max_tokens": 2}
            one = engine.generate(list(prompt), seed=turns[0], **options).tokens
            written.append(one + engine.generate(list(one), seed=turns[1], **options).tokens)
        return written

    assert fails(sample, model, prompts=[(0, 1)], max_tokens=4) == fault


# ------------------------------------------------------------------ on the fast sampler


def tokens_to_find(pair, rule, most):
    test, rng, first = LawTest(), np.random.default_rng(1), 0
    while not test.fault and test.tokens < most:
        texts = tiny.sample(pair, 2048, max_tokens=32, rng=rng, rule=tiny.rule(rule))
        for block in tiny.observed(pair, texts, first=first):
            test.observe_block(block)
        first += len(texts)
    return test.tokens if test.fault else None


@pytest.mark.long
def test_q_rounded_to_bfloat16():
    """About 3 million tokens, half a minute: a hundredth of it finds most others."""
    pair = tiny.rounding_pair()
    assert np.abs(bfloat16(pair.q) / pair.q - 1).max() < 0.004
    assert tokens_to_find(pair, "q rounded to bf16", 12_000_000) is not None


@pytest.mark.parametrize("rule", [name for name in tiny.RULES if name != "q rounded to bf16"])
def test_faults_by_name(rule):
    pair = tiny.random_pair(vocabulary=8, seed=1, cut=0.02)
    tokens = tokens_to_find(pair, rule, 120_000)
    assert (tokens is None) == (rule == "lossless")
