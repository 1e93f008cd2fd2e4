"""Known faults, planted one at a time: each must be caught, by enumeration or over seeds.

A mutant changes one thing in the production parts. The same measure passes without it, so that a
test that could not fail would show.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import forerun.decode
import forerun.drafters.layer_skip
import forerun.engine.request
import forerun.laws
import forerun.numerics.randomness
import forerun.verifiers.block
import forerun.verifiers.rejection
from certify.tables import COSTS, LONG, PROMPT, Remembering, draft_model, table, target
from forerun import Engine
from forerun.certify import exact_law, plain_law, total_variation
from forerun.certify.suite import head
from forerun.cli.chat import turn_seed
from forerun.drafters import (
    HeadDrafter,
    HybridDrafter,
    LayerSkipDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
)
from forerun.errors import CacheError, KeyReuseError
from forerun.generation import Generation
from forerun.models.tabular import LayeredTabularModel, TabularModel
from forerun.numerics.acceptance import acceptance, mass
from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import KeyedDraws, Purpose, host, inverse_cdf, uniforms
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.verifiers import VERIFIERS, BlockVerifier, RejectionVerifier

FAR = 1e-3  # a fault's total variation must exceed this; the right code's stays below 1e-12
EXACT = 1e-12


def distance(*, verifier, drafter=None, model=None, num_draft=2, horizon=3, costs=None, **sampling):
    model = target(3) if model is None else model
    drafter = ModelDrafter(draft_model(3)) if drafter is None else drafter
    common = {"prompt": PROMPT, "max_tokens": horizon, **sampling}
    found = exact_law(model, drafter, verifier=verifier, num_draft=num_draft, costs=costs, **common)
    return total_variation(found, plain_law(model, **common))


# ------------------------------------------------------------------ pages of another text


class TheLastOfAPage(TabularModel):
    """Restores the last tokens of a page, where the first were asked for."""

    def restore(self, slot, pages, count):
        last = pages.cells[len(pages) - count :]
        super().restore(slot, dataclasses.replace(pages, cells=last), count)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_pages_that_are_not_the_texts_own(verifier):
    class Faulty(TheLastOfAPage, Remembering):
        pass

    expected = plain_law(TabularModel(table(2, 1), 2), prompt=LONG, max_tokens=3)
    found = []
    for kind in (Remembering, Faulty):
        model = kind(table(2, 1), 2, None, [(*LONG[:66], 0, 0)])
        drafter = ModelDrafter(draft_model(2))
        law = exact_law(model, drafter, verifier=verifier, prompt=LONG, max_tokens=3)
        found.append(total_variation(law, expected))
    assert found[0] < EXACT
    assert found[1] > FAR


# ------------------------------------------------------------------ drafters that misreport q


class Misreporting(ModelDrafter):
    """Reports, for each token, the law that `report` makes of the one it was drawn from."""

    def __init__(self, report, **options):
        super().__init__(draft_model(3), **options)
        self.report = report

    def propose(self, requests):
        return [
            dataclasses.replace(proposal, q=tuple(self.report(self, r, proposal, i) for i in
            range(len(proposal)))) for r, proposal in zip(requests, super().propose(requests))
        ]  # fmt: skip


def another_temperature(drafter, request, proposal, i):
    q = proposal.q[i] ** 2
    return q / q.sum()


def softmax(drafter, request, proposal, i):
    ids = (*request.ids, *proposal.tree.tokens[:i])
    return np.array(drafter.model._next_law(ids))


@pytest.mark.parametrize("verifier", ["rejection", "block"])
@pytest.mark.parametrize(
    ("report", "options"),
    [(another_temperature, {}), (softmax, {"sampling": {"temperature": 0}})],
    ids=["q of another temperature", "argmax draft scored with its softmax"],
)
def test_q_other_than_the_law_sampled_from(report, options, verifier):
    honest = Misreporting(lambda drafter, request, proposal, i: proposal.q[i], **options)
    assert distance(verifier=verifier, drafter=honest) < EXACT
    assert distance(verifier=verifier, drafter=Misreporting(report, **options)) > FAR


class MisreportingHead(HeadDrafter):
    """Its q has the right masses, at draft ids or at the target's."""

    def __init__(self, mapped):
        super().__init__(head(3))
        self.mapped = mapped

    def propose(self, requests):
        found = super().propose(requests)
        return found if self.mapped else [self._unmapped(proposal) for proposal in found]

    def _unmapped(self, proposal):
        """As if d2t had been forgotten in q, but not in the tokens."""
        q = []
        for token, drawn_from in zip(proposal.tree.tokens, proposal.q):
            own = np.full(3, 1e-9)
            own[: len(self.model.ids)] += np.asarray(drawn_from)[self.model.ids]
            own[token] += 1e-3
            q.append(own / own.sum())
        return dataclasses.replace(proposal, q=tuple(q))


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_head_whose_q_is_of_other_ids(verifier):
    assert (head(3).ids != np.arange(2)).any()
    assert distance(verifier=verifier, drafter=MisreportingHead(True)) < EXACT
    assert distance(verifier=verifier, drafter=MisreportingHead(False)) > FAR


class CutHead(HeadDrafter):
    """Drafts likely tokens alone; what it says of it `report` makes of that law and the whole."""

    def __init__(self, report):
        super().__init__(head(3))
        self.report = report
        self.laws = {}

    def _law(self, logits, params, *of):
        whole = super()._law(logits, params.replace(min_p=0.0), *of)
        q = super()._law(logits, params.replace(min_p=0.9), *of)
        self.laws[id(q)] = (q, whole)
        return q

    def propose(self, requests):
        self.laws.clear()
        return [
            dataclasses.replace(one, q=tuple(self.report(*self.laws[id(q)]) for q in one.q))
            for one in super().propose(requests)
        ]


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_head_that_says_nothing_of_its_cut(verifier):
    cut = []

    def honest(q, whole):
        cut.append(len(q.ids) < len(whole.ids))
        return q

    assert distance(verifier=verifier, drafter=CutHead(honest)) < EXACT
    assert any(cut)
    assert distance(verifier=verifier, drafter=CutHead(lambda q, whole: whole)) > FAR


# ------------------------------------------------------------------ verifiers with a wrong rule


@pytest.fixture
def plant(monkeypatch):
    """Register a faulty verifier; returns the distance it causes."""

    def planted(faulty, **options):
        monkeypatch.setitem(VERIFIERS, "faulty", faulty)
        return distance(verifier="faulty", **options)

    return planted


class BonusFromDraft(RejectionVerifier):
    def verify(self, proposal, p, draws):
        bonus = proposal.q[-1] if len(proposal) else p[-1]
        return super().verify(proposal, [*p[:-1], bonus], draws)


class FirstFailure(BlockVerifier):
    """Stops at the first coin that fails, instead of taking the largest that passes."""

    def verify(self, proposal, p, draws):
        class Stopping:
            failed = False

            def accept(self, probability, key):
                passed = draws.accept(probability, key) and not self.failed
                self.failed = self.failed or not passed
                return passed

            draw = staticmethod(draws.draw)

        return super().verify(proposal, p, Stopping())


def test_bonus_from_the_draft(plant):
    assert plant(RejectionVerifier) < EXACT
    assert plant(BonusFromDraft) > FAR


def test_block_verification_that_stops_at_the_first_failure(plant):
    assert plant(BlockVerifier) < EXACT
    assert plant(FirstFailure) > FAR


@pytest.mark.parametrize("module", [forerun.verifiers.rejection, forerun.verifiers.block])
def test_resampling_from_p_after_a_rejection(module, monkeypatch):
    name = module.__name__.rsplit(".", 1)[1]
    assert distance(verifier=name) < EXACT
    monkeypatch.setattr(module, "residual", lambda p, q, token, scale=1.0: p)
    assert distance(verifier=name) > FAR


def test_acceptance_times_0_8(monkeypatch):
    assert distance(verifier="rejection") < EXACT
    monkeypatch.setattr(
        forerun.verifiers.rejection, "acceptance", lambda p, q, x: 0.8 * acceptance(p, q, x)
    )
    assert distance(verifier="rejection") > FAR


def test_block_acceptance_times_0_8(monkeypatch):
    assert distance(verifier="block") < EXACT
    excess = forerun.verifiers.block.excess
    monkeypatch.setattr(
        forerun.verifiers.block, "excess", lambda p, q, x, scale: 0.8 * excess(p, q, x, scale)
    )
    assert distance(verifier="block") > FAR


def test_lenient_acceptance(monkeypatch):
    """A threshold instead of a coin, as 'typical acceptance' has it."""
    monkeypatch.setattr(
        forerun.verifiers.rejection, "acceptance", lambda p, q, x: float(mass(p, x) > 0.3)
    )
    assert distance(verifier="rejection") > FAR


def test_a_token_of_p_zero_that_is_accepted(monkeypatch):
    model = TabularModel(lambda prefix: (0.0, 0.4, 0.6), 3)
    assert distance(verifier="rejection", model=model) < EXACT
    monkeypatch.setattr(
        forerun.verifiers.rejection, "acceptance", lambda p, q, x: max(acceptance(p, q, x), 0.05)
    )
    assert distance(verifier="rejection", model=model) > FAR


# ------------------------------------------------------------------ drafts on the target's own slot


class Smudges(LayeredTabularModel):
    """What is drafted with some of the layers is written one cell too early: over the text."""

    def skim(self, steps, skipped):
        found = super().skim(steps, skipped)
        for step in steps:
            text = self._cached[step.slot]
            at = len(text) - len(step.tokens) - 1
            self._cached[step.slot] = (*text[:at], step.tokens[0], *text[at + 1 :])
        return found


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_drafts_that_are_written_over_the_text(verifier):
    right = target(3)
    assert distance(verifier=verifier, drafter=LayerSkipDrafter()) < EXACT
    wrong = Smudges(right._next_law, right._shallow_law, right.layers, 3)
    assert distance(verifier=verifier, drafter=LayerSkipDrafter(), model=wrong) > FAR


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_drafts_that_are_left_in_the_cache(verifier, monkeypatch):
    """They would be read as text; lengths are absolute, so that it is found at the round's end."""
    monkeypatch.setattr(forerun.drafters.layer_skip._OfSet, "propose", ModelDrafter.propose)
    with pytest.raises(CacheError, match="do not make"):
        distance(verifier=verifier, drafter=LayerSkipDrafter())


class Deciding(LayerSkipDrafter):
    """Drafts with each set of layers, the second with noise of its own, and takes one."""

    def __init__(self, decided):
        super().__init__()
        self.decided = decided

    def propose(self, requests):
        first, second = self.models
        made = (
            super().propose([dataclasses.replace(r, passes=first) for r in requests]),
            super().propose([dataclasses.replace(freshly(r), passes=second) for r in requests]),
        )
        return [self.decided(r, *several) for r, *several in zip(requests, *made)]


def freshly(request):
    return dataclasses.replace(
        request, sample=lambda q, node, path: request.sample(q, 10 + node, path)
    )


@pytest.mark.parametrize("verifier", ["rejection", "block"])
@pytest.mark.parametrize("which", [0, 1])
def test_layers_chosen_by_what_they_drafted(which, verifier):
    """The first set's draft, unless its own tokens seem unlikely."""
    honest = Deciding(lambda request, *made: made[which])
    assert distance(verifier=verifier, drafter=honest) < EXACT
    peeking = Deciding(
        lambda request, *made: made[which if len(likely(made[which])) else 1 - which]
    )
    assert distance(verifier=verifier, drafter=peeking) > FAR


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_layers_chosen_by_the_verdict_of_this_very_round(verifier):
    """The first set's draft, if its first token is sure to be accepted."""

    def sure(request, first, second):
        p = target(3)._next_law(tuple(request.ids))
        token = first.tree.tokens[0]
        return first if p[token] >= first.q[0][token] else second

    assert distance(verifier=verifier, drafter=Deciding(sure)) > FAR


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_laws_of_other_layers_than_those_that_drafted(verifier):
    mixed = Deciding(lambda request, first, second: dataclasses.replace(first, q=second.q))
    assert distance(verifier=verifier, drafter=mixed, num_draft=1) > FAR


# ------------------------------------------------------------------ faults of the loop


class KeepsRejected(TabularModel):
    """Off by one: of the round's pass, the cache keeps what follows each kept token."""

    def keep(self, slot, length, path=None):
        before, step = self._last.get(slot, (0, None))
        super().keep(slot, length, path)
        if path is not None and before:
            shifted = [step.tokens[min(i + 1, len(step.tokens) - 1)] for i in path]
            self._cached[slot] = (*self._cached[slot][:before], *shifted)


class KeepsOneMore(TabularModel):
    def keep(self, slot, length, path=None):
        cached = self._cached[slot]
        super().keep(slot, length, path)
        self._cached[slot] = cached[: length + 1]


class KeepsOneLess(TabularModel):
    def keep(self, slot, length, path=None):
        super().keep(slot, length, path)
        self._cached[slot] = self._cached[slot][:-1]


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_keep_off_by_one_at_the_right_length(verifier):
    right = target(3)
    assert distance(verifier=verifier, model=right) < EXACT
    assert distance(verifier=verifier, model=KeepsRejected(right._next_law, 3)) > FAR


@pytest.mark.parametrize("faulty", [KeepsOneMore, KeepsOneLess])
@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_keep_off_by_one_at_a_wrong_length(faulty, verifier):
    """Lengths are absolute, so the next round finds out at once, or the reading of the prompt."""
    with pytest.raises(CacheError, match=r"do not make|told to keep 4 tokens, and holds 3"):
        distance(verifier=verifier, model=faulty(target(3)._next_law, 3))


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_keep_off_by_one_in_the_drafter_costs_speed_alone(verifier):
    """q is the law that the token was drawn from, whatever the draft's cache holds."""
    draft = KeepsWrongToken(draft_model(3)._next_law, 3, name="draft")
    assert distance(verifier=verifier, drafter=ModelDrafter(draft)) < EXACT


class KeepsWrongToken(TabularModel):
    def keep(self, slot, length, path=None):
        super().keep(slot, length, path)
        if length:
            self._cached[slot] = (*self._cached[slot][:-1], 0)


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_bonus_after_eos(verifier, monkeypatch):
    model = target(3, eos=2)
    assert distance(verifier=verifier, model=model) < EXACT
    commit = forerun.decode.commit

    def overrun(g, proposal, verdict):
        kinds = commit(g, proposal, verdict)
        if g.finish_reason == "stop" and len(g.ids) < g.limit:
            g.ids.append(verdict.token)
        return kinds

    monkeypatch.setattr(forerun.decode, "commit", overrun)
    monkeypatch.setattr(forerun.decode, "keep", lambda *_: None)  # the text is over
    assert distance(verifier=verifier, model=model) > FAR


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
@pytest.mark.parametrize(
    "penalty", [{"repetition_penalty": 1.8}, {"presence_penalty": -0.9}, {"frequency_penalty": 0.8}]
)
def test_penalties_with_stale_history(penalty, verifier, monkeypatch):
    assert distance(verifier=verifier, **penalty) < EXACT
    monkeypatch.setattr(
        forerun.laws,
        "History",
        lambda ids, prompt_length, path: History(tuple(ids), prompt_length),
    )
    assert distance(verifier=verifier, **penalty) > FAR


def test_min_tokens_with_stale_history(monkeypatch):
    options = {"model": target(3, eos=2), "min_tokens": 2}
    assert distance(verifier="rejection", **options) < EXACT
    monkeypatch.setattr(
        forerun.laws,
        "History",
        lambda ids, prompt_length, path: History(tuple(ids), prompt_length),
    )
    assert distance(verifier="rejection", **options) > FAR


def test_a_draft_length_that_looks_at_the_drafted_token():
    """Whether x_k gets verified must not depend on x_k: here a token is dropped for its q."""

    class Peeking(ModelDrafter):
        def propose(self, requests):
            return [_cut(proposal) for proposal in super().propose(requests)]

    def _cut(proposal):
        likely = itertools.takewhile(
            lambda i: proposal.q[i][proposal.tree.tokens[i]] > 0.4, range(len(proposal))
        )
        n = len(list(likely))
        tree = type(proposal.tree).chain(proposal.tree.tokens[:n])
        return Proposal(tree=tree, q=proposal.q[:n], drawn=Drawn.SAMPLED)

    assert distance(verifier="rejection", drafter=Peeking(draft_model(3))) > FAR


def likely(proposal):
    """The part of a sampled draft before the first token that its own law thought unlikely."""
    drawn = zip(proposal.q, proposal.tree.tokens)
    n = len(list(itertools.takewhile(lambda pair: pair[0][pair[1]] > 0.4, drawn)))
    return proposal.first(n)


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_control_that_looks_at_the_drafted_token(verifier, monkeypatch):
    """γ of this round depends on the token that is judged in it."""
    options = {"num_draft": "auto", "costs": COSTS, "horizon": 4, "verifier": verifier}
    assert distance(**options) < EXACT
    propose = forerun.decode.propose

    def peeking(*args):
        return [
            dataclasses.replace(draft, proposal=likely(draft.proposal)) for draft in propose(*args)
        ]

    monkeypatch.setattr(forerun.decode, "propose", peeking)
    assert distance(**options) > FAR


class Mixture(HybridDrafter):
    """`other` may replace what the model drafted by what a lookup has."""

    def __init__(self, other):
        super().__init__([ModelDrafter(draft_model(3)), NgramDrafter()])
        self.other = other

    def propose(self, requests):
        sampled = super().propose([dataclasses.replace(r, drafter="model") for r in requests])
        copied = super().propose([dataclasses.replace(r, drafter="ngram") for r in requests])
        return [self.other(*pair) for pair in zip(sampled, copied)]


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_drafter_chosen_by_what_was_sampled(verifier):
    honest = Mixture(lambda sampled, copied: copied if len(copied) else sampled)
    assert distance(verifier=verifier, drafter=honest, horizon=4) < EXACT
    peeking = Mixture(
        lambda sampled, copied: sampled if len(likely(sampled)) or not len(copied) else copied
    )
    assert distance(verifier=verifier, drafter=peeking, horizon=4) > FAR


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_copied_draft_among_several_that_passes_for_a_sampled_one(verifier):
    """Judged by laws it was not drawn from. (A sampled one taken for a point mass is right.)"""

    def mislabelled(sampled, copied):
        n = min(len(sampled), len(copied))
        tree = copied.first(n).tree
        return Proposal(tree=tree, q=sampled.q[:n], drawn=Drawn.SAMPLED)

    assert distance(verifier=verifier, drafter=Mixture(mislabelled), horizon=4) > FAR
    other = Mixture(lambda sampled, copied: Proposal.point_mass(sampled.tree.tokens))
    assert distance(verifier=verifier, drafter=other, horizon=4) < EXACT


# ------------------------------------------------------------------ faults of the noise
#
# Enumeration takes every call as independent, so reuse shows in two other ways: the source raises,
# and with the raise off the frequencies over seeds are wrong.


def frequencies(engine, seeds, *, verifier, horizon, prompt=PROMPT):
    found = Counter()
    for seed in range(seeds):
        done = engine.generate(list(prompt), seed=seed, verifier=verifier, max_tokens=horizon)
        found[done.tokens] += 1
    return found


def p_values(found, expected, horizon):
    """Chi-square of each single position, of each adjacent pair, and of the whole."""
    total = sum(found.values())
    views = [(i,) for i in range(horizon)] + [(i, i + 1) for i in range(horizon - 1)]
    for view in [*views, tuple(range(horizon))]:
        counts, wanted = Counter(), Counter()
        for y, n in found.items():
            counts[tuple(y[i] for i in view)] += n
        for y, w in expected.items():
            wanted[tuple(y[i] for i in view)] += w * total
        cells = sorted(wanted)
        assert set(counts) <= set(cells), "a token with p = 0 was emitted"
        yield stats.chisquare([counts[c] for c in cells], [wanted[c] for c in cells]).pvalue


def caught_over_seeds(engine, *, verifier, seeds, horizon=4):
    expected = plain_law(engine.target, prompt=PROMPT, max_tokens=horizon)
    found = frequencies(engine, seeds, verifier=verifier, horizon=horizon)
    return min(p_values(found, expected, horizon)) < 1e-6


def engine_of(vocabulary=2, num_draft=2):
    model = TabularModel(table(vocabulary, 1), vocabulary)
    return Engine(model, ModelDrafter(draft_model(vocabulary)), num_draft=num_draft)


class Unchecked(KeyedDraws):
    """The raise off."""

    def begin_round(self, index, position):
        self._round = -1
        super().begin_round(index, position)

    def _uniform(self, key):
        self._coins.pop(key, None)
        return super()._uniform(key)


class CoinForResidual(RejectionVerifier):
    def verify(self, proposal, p, draws):
        class Reusing:
            accept = staticmethod(draws.accept)

            def draw(self, law, key):
                node, _ = key
                rejected = node + 1 < len(proposal)
                return draws.draw(law, (node + 1, Purpose.ACCEPT) if rejected else key)

        return super().verify(proposal, p, Reusing())


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_the_right_noise_is_right_over_seeds(verifier):
    assert not caught_over_seeds(engine_of(), verifier=verifier, seeds=6000)


def test_a_coin_reused_for_the_residual(monkeypatch):
    monkeypatch.setitem(VERIFIERS, "faulty", CoinForResidual)
    with pytest.raises(KeyReuseError, match="ACCEPT of node"):
        frequencies(engine_of(), 50, verifier="faulty", horizon=4)
    with pytest.raises(KeyReuseError, match="ACCEPT of node"):
        distance(verifier="faulty")
    monkeypatch.setattr(forerun.engine.request, "KeyedDraws", Unchecked)
    assert caught_over_seeds(engine_of(3), verifier="faulty", seeds=6000, horizon=3)


class StandingRound(Generation):
    """Forgets to count rounds, so that each draws from the noise of the first."""

    def __setattr__(self, name, value):
        super().__setattr__(name, 0 if name == "round" else value)


def test_a_round_that_is_not_counted(monkeypatch):
    monkeypatch.setattr(forerun.engine.request, "Generation", StandingRound)
    with pytest.raises(KeyReuseError, match="round 0 after round 0"):
        engine_of().generate(list(PROMPT), seed=1, verifier="block", max_tokens=6)
    with pytest.raises(KeyReuseError, match="round 0 after round 0"):
        distance(verifier="block")
    monkeypatch.setattr(forerun.engine.request, "KeyedDraws", Unchecked)
    assert caught_over_seeds(engine_of(), verifier="block", seeds=3000)


class DraftNoiseByPosition(Unchecked):
    """Drafts keyed by position alone: the next round redraws them from noise already looked at."""

    def _uniform(self, key):
        node, purpose = key
        if purpose is not Purpose.DRAFT:
            return super()._uniform(key)
        return float(uniforms(self._bits(self._position + node, 0, purpose, 0, 1))[0])


def test_drafts_redrawn_from_the_last_rounds_noise(monkeypatch):
    def caught():
        model = TabularModel(lambda prefix: (0.4, 0.6), 2)
        draft = TabularModel(lambda prefix: (0.8, 0.2), 2)
        engine = Engine(model, ModelDrafter(draft), num_draft=2)
        return caught_over_seeds(engine, verifier="block", seeds=6000, horizon=3)

    assert not caught()
    monkeypatch.setattr(forerun.engine.request, "KeyedDraws", DraftNoiseByPosition)
    assert caught()


def coarse(bits):
    """24 bits, as float32 generators give them: 0 is one of the values."""
    return (bits >> np.uint64(40)).astype(np.float64) * 2.0**-24


def tail_wins(races, vocabulary=152_000):
    """Races won by tokens that have a share of 1e-6 together."""
    p = np.full(vocabulary, 1e-6 / (vocabulary - 2))
    p[:2] = (1 - 1e-6) / 2
    draws = KeyedDraws(3)
    return sum(
        int(np.argmin(draws.exponentials(position, vocabulary) / p)) > 1
        for position in range(races)
    )


def test_24_bit_uniforms_in_races(monkeypatch):
    """Some token of a large vocabulary gets E = 0 and wins, whatever its p."""
    races = 1500
    assert stats.binomtest(tail_wins(races), races, 1e-6).pvalue > 1e-6
    monkeypatch.setattr(forerun.numerics.randomness, "uniforms", coarse)
    assert stats.binomtest(tail_wins(races), races, 1e-6).pvalue < 1e-6


def test_a_drafter_that_remembers_the_same_seeds_earlier_output():
    """Under `rejection` that text knows the coins that judge it; `coupled` is immune."""
    model = TabularModel(table(2, 1), 2)
    horizon, seeds = 4, 6000
    expected = plain_law(model, prompt=PROMPT, max_tokens=horizon)
    first = Engine(model, ModelDrafter(draft_model(2)), num_draft=2)
    caught = {}
    for verifier in ("rejection", "coupled"):
        found = Counter()
        for seed in range(seeds):
            options = {"seed": seed, "verifier": verifier, "max_tokens": horizon}
            earlier = first.generate(list(PROMPT), **options)
            again = Engine(model, PredictionDrafter(earlier.tokens), num_draft=2)
            found[again.generate(list(PROMPT), **options).tokens] += 1
        caught[verifier] = min(p_values(found, expected, horizon)) < 1e-6
    assert caught == {"rejection": True, "coupled": False}


@pytest.mark.parametrize("verifier", ["rejection", "coupled"])
def test_a_prompt_that_stems_from_the_same_seed(verifier):
    """A second turn whose prompt holds the first one's answer; the oldest tokens were dropped."""
    model = TabularModel(lambda prefix: (0.6, 0.4), 2)
    engine = Engine(model, NgramDrafter(), num_draft=2)
    expected = plain_law(model, prompt=[0], max_tokens=4)  # two answers of two tokens
    caught = {}
    for name, seed_of in (("same", lambda seed, turn: seed), ("own", turn_seed)):
        found = Counter()
        for seed in range(3000):
            options = {"verifier": verifier, "max_tokens": 2}
            one = engine.generate([0, 1], seed=seed_of(seed, 0), **options).tokens
            two = engine.generate(list(one), seed=seed_of(seed, 1), **options).tokens
            found[one + two] += 1
        caught[name] = min(p_values(found, expected, 4)) < 1e-6
    assert caught == {"same": True, "own": False}


def test_single_precision_draws_would_not_be_seen_here():
    """Guard of the suite: inverse_cdf and laws of the tables are float64 throughout."""
    p = law(np.log([0.5, 0.25, 0.25]), forerun.SamplingParams(), History((), 0))
    assert host(p).dtype == np.float64
    assert inverse_cdf(p, 0.5) == 1
