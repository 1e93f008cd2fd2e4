"""Behind a cut the loop's exact law is the target's, given what was sent before it."""

from __future__ import annotations

import pytest

import forerun.engine.request
from certify.tables import CHAIN_VERIFIERS, COMPANY, PROMPT, controls, drafters, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import ModelDrafter, NgramDrafter
from forerun.engine import Resume

EXACT, FAR = 1e-12, 1e-3
HORIZON = 4


def given(law, sent):
    """The law of outputs that begin so."""
    kept = {y: p for y, p in law.items() if y[: len(sent)] == sent}
    whole = sum(kept.values())
    return {y: p / whole for y, p in kept.items()}


def cuts(law):
    """Every beginning that can be, ended outputs among them."""
    return sorted({y[:i] for y, p in law.items() if p > 0 for i in range(len(y) + 1)})


def distance(model, drafter, verifier, sent, law, company=(), **options):
    resume = Resume(output=sent)
    found = exact_law(
        model, drafter, verifier=verifier, num_draft=2, prompt=PROMPT, company=company,
        resume=resume, **options,
    )  # fmt: skip
    return total_variation(found, given(law, sent))


@pytest.mark.parametrize("company", [False, True], ids=["alone", "in company"])
@pytest.mark.parametrize("verifier", [*CHAIN_VERIFIERS, "auto"])
@pytest.mark.parametrize("name", drafters(2))
def test_every_cut(name, verifier, company):
    model = target(2, eos=1)
    for control in ("plain", "repetition penalty", "min-tokens"):
        options = {"max_tokens": HORIZON, **controls(2)[control]}
        law = plain_law(model, prompt=PROMPT, **options)
        others = COMPANY if company else ()
        for sent in cuts(law):
            make = drafters(2)[name]
            assert distance(model, make(), verifier, sent, law, others, **options) < EXACT


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_an_output_taken_for_a_part_of_the_prompt_is_caught(verifier, monkeypatch):
    """Penalties of the output alone, and the budget, tell where the prompt ends."""
    model, options = target(2), {"max_tokens": HORIZON, "frequency_penalty": 1.0}
    law = plain_law(model, prompt=PROMPT, **options)
    assert distance(model, NgramDrafter(), verifier, (1, 1), law, **options) < EXACT
    new = forerun.engine.request.new_generation

    def mistaken(*args):
        g = new(*args)
        g.prompt_length = len(g.ids)
        return g

    monkeypatch.setattr("forerun.engine.scheduler.new_generation", mistaken)
    found = exact_law(
        model, NgramDrafter(), verifier=verifier, num_draft=2, prompt=PROMPT,
        resume=Resume(output=(1, 1)), **options,
    )  # fmt: skip
    assert total_variation({(1, 1, *y): p for y, p in found.items()}, given(law, (1, 1))) > FAR


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
def test_whole_answers_of_two_engines(verifier):
    """Pr(a first engine sends h) · Pr(a second one goes on with y) adds up to the target's law."""
    model, options = target(3, eos=2), {"max_tokens": 3}
    law = plain_law(model, prompt=PROMPT, **options)
    first = exact_law(
        model, ModelDrafter(target(3)), verifier=verifier, num_draft=2, prompt=PROMPT, max_tokens=1
    )
    found: dict[tuple[int, ...], float] = {}
    for sent, weight in first.items():
        rest = exact_law(
            model, NgramDrafter(), verifier=verifier, num_draft=2, prompt=PROMPT,
            resume=Resume(output=sent), **options,
        )  # fmt: skip
        for y, p in rest.items():
            found[y] = found.get(y, 0.0) + weight * p
    assert total_variation(found, law) < EXACT
