"""The production loop's exact output law is Π p: total variation below 1e-12, by enumeration.

In full: every drafter × verifier × control × EOS, at V = 2 and horizon 3, alone and in company, and
at V = 3 and horizon 4. `make test-long` adds V = 4, γ = 4, horizon 5.
"""

from __future__ import annotations

import itertools
import random
import threading

import numpy as np
import pytest

import forerun.decode
from certify.tables import (
    CHAIN_VERIFIERS,
    COMPANY,
    COSTS,
    LONG,
    PROMPT,
    Remembering,
    controls,
    draft_model,
    drafters,
    table,
    target,
)
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import DraftRequest, ModelDrafter, NgramDrafter
from forerun.errors import CapabilityError, OptionError
from forerun.models.tabular import LayeredTabularModel, TabularModel
from forerun.numerics.choice import Choice, Made
from forerun.numerics.distribution import defined_law
from forerun.numerics.fused import cuts
from forerun.pace import Costs
from forerun.sampling import SamplingParams
from forerun.verifiers import VERIFIERS

EXACT = 1e-12


def check(
    vocabulary, drafter, verifier, control, *, eos, num_draft, horizon, company=(), costs=None
):
    model = target(vocabulary, eos=vocabulary - 1 if eos else None)
    helper = drafters(vocabulary)[drafter]()
    common = {"prompt": PROMPT, "max_tokens": horizon, **controls(vocabulary)[control]}
    expected = plain_law(model, **common)
    found = exact_law(
        model,
        helper,
        verifier=verifier,
        num_draft=num_draft,
        costs=costs,
        company=company,
        **common,
    )
    assert sum(expected.values()) == pytest.approx(1, abs=EXACT)
    assert total_variation(found, expected) < EXACT


def product(vocabulary):
    """Every drafter × verifier × control × EOS."""

    def decorate(test):
        for name, values in (
            ("drafter", drafters(vocabulary)),
            ("verifier", [*CHAIN_VERIFIERS, "auto"]),
            ("control", controls(vocabulary)),
        ):
            test = pytest.mark.parametrize(name, values)(test)
        return pytest.mark.parametrize("eos", [False, True], ids=["", "EOS"])(test)

    return decorate


@product(2)
@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
def test_two_tokens(drafter, verifier, control, eos, company):
    others = COMPANY if company else ()
    check(2, drafter, verifier, control, eos=eos, num_draft=2, horizon=3, company=others)


@product(3)
def test_three_tokens(drafter, verifier, control, eos):
    check(3, drafter, verifier, control, eos=eos, num_draft=3, horizon=4)


TREE_VERIFIERS = [name for name in VERIFIERS if name not in CHAIN_VERIFIERS]


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("drafter", drafters(2))
def test_verifiers_of_trees_judge_chains(drafter, verifier):
    """A few of the product above each, other ones from pair to pair."""
    dice = random.Random(f"{drafter} {verifier}")
    axes = list(itertools.product(controls(2), [False, True], [(), COMPANY]))
    for control, eos, company in dice.sample(axes, 4):
        check(2, drafter, verifier, control, eos=eos, num_draft=2, horizon=3, company=company)


@pytest.mark.long
@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("drafter", drafters(3))
@pytest.mark.parametrize("control", controls(3))
def test_verifiers_of_trees_judge_all_chains(control, drafter, verifier):
    for eos in (False, True):
        for company in ((), COMPANY):
            check(2, drafter, verifier, control, eos=eos, num_draft=2, horizon=3, company=company)
        check(3, drafter, verifier, control, eos=eos, num_draft=3, horizon=4)


class Choosing(LayeredTabularModel):
    """Gives laws, or only the largest of a row, wherever that will do."""

    given = 0

    def extend(self, steps):
        found = super().extend(steps)
        for i, step in enumerate(steps):
            if step.params is not None:
                found[i] = [self.made(row, step.params) for row in found[i]]
                Choosing.given += len(found[i])
        return found

    def made(self, row, params):
        if params.temperature == 0:
            return Choice(int(row.argmax()), self.vocab_size)
        p = defined_law(row, params)
        ids = np.flatnonzero(p)
        if cuts(params):
            return Made(params, len(ids), ids, p[ids], self.vocab_size)
        return Made(params, 0, None, p, self.vocab_size)


@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
@pytest.mark.parametrize("verifier", [*CHAIN_VERIFIERS, "auto"])
@pytest.mark.parametrize("drafter", drafters(3))
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.7}, {"top_p": 0.8}])
def test_laws_in_the_place_of_logits(sampling, drafter, verifier, company):
    model, helper = target(3, eos=2), drafters(3)[drafter]()
    length = 4 if sampling == {"temperature": 0} else 3
    common = {"prompt": PROMPT, "max_tokens": length, **sampling}
    expected = plain_law(model, **common)
    model.__class__, Choosing.given = Choosing, 0
    others = COMPANY if company else ()
    found = exact_law(model, helper, verifier=verifier, num_draft=3, company=others, **common)
    assert total_variation(found, expected) < EXACT
    assert Choosing.given >= 3


AUTO_CONTROLS = ["plain", "temperature", "top-p", "repetition penalty", "min-tokens"]
"""γ by cost has the same laws behind it: a few of them."""


@pytest.mark.parametrize("verifier", [*CHAIN_VERIFIERS, "auto"])
@pytest.mark.parametrize("control", AUTO_CONTROLS)
@pytest.mark.parametrize("drafter", drafters(2))
@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
def test_draft_lengths_by_cost(drafter, verifier, control, company):
    others = [(*COMPANY[0][:1], COMPANY[0][1] | {"num_draft": "auto"})] if company else ()
    check(
        2, drafter, verifier, control,
        eos=control == "min-tokens", num_draft="auto", horizon=3 if company else 5,
        company=others, costs=COSTS,
    )  # fmt: skip


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("drafter", ["model", "suffix", "suffix+model"])
def test_draft_lengths_by_cost_at_three_tokens(drafter, verifier):
    check(3, drafter, verifier, "plain", eos=True, num_draft="auto", horizon=5, costs=COSTS)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("known", [3, 64, 66, 69, 70])
@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
def test_what_was_read_before(known, verifier, company):
    """Target and draft model begin with pages of other texts that share `known` tokens."""
    vocabulary, eos = 3, 2
    other = (*LONG[:known], *(2, 0, 2, 0, 1, 1))
    law = table(vocabulary, 1, zeros=True)
    model = Remembering(law, vocabulary, eos, [other, LONG[: known // 2]])
    drafter = ModelDrafter(draft_model(vocabulary), prefix_memory=1 << 16)
    drafter.begin(0, other)
    request = DraftRequest(
        slot=0, ids=other, prompt_length=len(other), num_draft=1, params=SamplingParams(),
        sample=lambda q, node, path: 0,
    )  # fmt: skip
    drafter.propose([request])
    drafter.end(0)
    common = {"prompt": LONG, "max_tokens": 3}
    others = [(LONG, {"max_tokens": 2, "num_draft": 1})] if company else ()
    found = exact_law(model, drafter, verifier=verifier, num_draft=2, company=others, **common)
    expected = plain_law(TabularModel(law, vocabulary, eos), **common)
    assert total_variation(found, expected) < EXACT
    assert model.cache.known("", LONG) == min(known, 69)


def test_draft_lengths_by_cost_are_part_of_the_state(monkeypatch):
    """One text, reached with another past: its branches are not merged, and draft differently."""
    plans = {}
    plan = forerun.decode.plan_batch

    def recorded(seats):
        (seat,), (found,) = seats, plan(seats)
        text = tuple(seat.drafters["model"].texts[seat.slot])
        plans.setdefault(text, set()).add((seat.control._account, found.num_draft))
        return [found]

    class Following(ModelDrafter):
        def begin(self, slot, prompt, **options):
            super().begin(slot, prompt, **options)
            self.texts = {slot: list(prompt)}

        def observe(self, slot, committed):
            super().observe(slot, committed)
            self.texts[slot] += committed

    monkeypatch.setattr(forerun.decode, "plan_batch", recorded)
    common = {"prompt": PROMPT, "max_tokens": 6}
    model, helper = target(2), Following(draft_model(2))
    found = exact_law(model, helper, verifier="rejection", num_draft="auto", costs=COSTS, **common)
    assert total_variation(found, plain_law(model, **common)) < EXACT
    assert max(len(pasts) for pasts in plans.values()) > 3
    assert max(len({n for _, n in pasts}) for pasts in plans.values()) > 1


PREDICTED = (1, 0, 0, 1)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("num_draft", [2, "auto"])
@pytest.mark.parametrize("drafter", ["none", "model", "prediction", "suffix+model"])
def test_predictions_of_requests(drafter, num_draft, verifier):
    """Beside the engine's drafters, of which the others in the batch have some, or none."""
    others = [
        (prompt, {**options, **own})
        for own in ({"drafter": None}, {"drafter": "prediction", "prediction": [0, 0]})
        for prompt, options in COMPANY
    ]
    for company in ((), others):
        helper, model = drafters(2)[drafter](), target(2, eos=1)
        common = {"prompt": PROMPT, "max_tokens": 3, "temperature": 0.8}
        found = exact_law(
            model, helper, verifier=verifier, num_draft=num_draft, costs=COSTS, company=company,
            prediction=PREDICTED, **common,
        )  # fmt: skip
        assert total_variation(found, plain_law(model, **common)) < EXACT


def test_draft_lengths_by_times_cannot_be_enumerated():
    with pytest.raises(OptionError, match="exact_law needs fixed costs"):
        exact_law(target(2), costs=Costs(target=(1.0,)), prompt=PROMPT, max_tokens=2)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("num_draft", [1, 2, 3])
def test_draft_lengths(num_draft, verifier):
    check(3, "model", verifier, "plain", eos=True, num_draft=num_draft, horizon=4)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_company_at_three_tokens(verifier):
    check(3, "model", verifier, "temperature", eos=True, num_draft=2, horizon=4, company=COMPANY)


@pytest.mark.long
@pytest.mark.parametrize("control", ["plain", "min-tokens", "repetition penalty"])
@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_four_tokens_deep(verifier, control):
    check(4, "model", verifier, control, eos=True, num_draft=4, horizon=5)


@pytest.mark.long
@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("drafter", drafters(3))
def test_two_companions(drafter, verifier):
    longer = ((0, 2, 1, 0), {"max_tokens": 3, "num_draft": 2, "top_p": 0.8})
    check(
        3, drafter, verifier, "top-k", eos=True, num_draft=2, horizon=3, company=[longer, *COMPANY]
    )


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy drafter"])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ((0.6, 0.4), (0.8, 0.2)),
        ((0.1, 0.6, 0.3), (0.4, 0.4, 0.2)),
        ((0.5, 0.5), (0.5, 0.5)),
        ((0.0, 1.0), (1.0, 0.0)),
        ((0.3, 0.0, 0.7), (0.2, 0.6, 0.2)),
        ((1e-30, 1 - 1e-30), (0.5, 0.5)),
    ],
)
def test_laws_that_trip_others(p, q, greedy, verifier):
    """Fixed laws at every position, depths 1 to 4."""
    for num_draft in (1, 2, 3, 4):
        model = TabularModel(lambda prefix: p, len(p))
        draft = TabularModel(lambda prefix: q, len(q))
        helper = ModelDrafter(draft, sampling={"temperature": 0} if greedy else None)
        horizon = num_draft + 1  # so that all of them are drafted
        found = exact_law(
            model, helper, verifier=verifier, num_draft=num_draft, prompt=[0], max_tokens=horizon
        )
        assert total_variation(found, plain_law(model, prompt=[0], max_tokens=horizon)) < EXACT
        assert all(p[x] > 0 for y in found for x in y)


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_crossing_the_draft_context_then_the_targets(verifier):
    model = target(2, context=9)
    for context in (3, 6, 7):
        helper = ModelDrafter(draft_model(2, context=context))
        common = {"prompt": PROMPT, "max_tokens": 20}
        found = exact_law(model, helper, verifier=verifier, num_draft=3, **common)
        assert {len(y) for y in found} == {4}  # 5 + 4 tokens fill the context
        assert total_variation(found, plain_law(model, **common)) < EXACT


def test_processors_see_the_history_of_their_position():
    def no_repeat(ids, logits):
        logits[ids[-1]] -= 2.0
        return logits

    common = {"prompt": PROMPT, "max_tokens": 4, "processors": [no_repeat]}
    model = target(3)
    for verifier in CHAIN_VERIFIERS:
        found = exact_law(
            model, ModelDrafter(draft_model(3)), verifier=verifier, num_draft=2, **common
        )
        assert total_variation(found, plain_law(model, **common)) < EXACT


def test_a_wrong_law_is_far_off():
    """The measure itself can fail: another target's law is not this one's."""
    common = {"prompt": PROMPT, "max_tokens": 3}
    other = TabularModel(draft_model(2)._next_law, 2)
    assert total_variation(plain_law(target(2), **common), plain_law(other, **common)) > 0.05


def test_a_drafter_that_can_be_called_is_state_all_the_same():
    class Called(NgramDrafter):
        def __call__(self):
            raise AssertionError

    common = {"prompt": PROMPT, "max_tokens": 3}
    found = exact_law(target(2), Called(), num_draft=2, **common)
    assert total_variation(found, plain_law(target(2), **common)) < EXACT


def test_what_cannot_be_snapshot_is_said():
    helper = NgramDrafter()
    helper.lock = threading.Lock()
    with pytest.raises(CapabilityError, match="plain Python state"):
        exact_law(target(2), helper, prompt=PROMPT, max_tokens=2)
