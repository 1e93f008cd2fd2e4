"""The exact law of a request whose γ is decided together with that of others."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

import forerun.decode
from certify.tables import CHAIN_VERIFIERS, PROMPT, draft_model, drafters, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.certify.suite import VARIANTS
from forerun.drafters import ModelDrafter
from forerun.pace import Costs

EXACT, FAR = 1e-12, 1e-3
COSTS = {
    "rows": Costs(
        target=tuple(1 + 0.1 * i for i in range(16)), draft={"model": (0.05,)}, fixed=True
    ),
    "steps": Costs(target=tuple(1 + 0.3 * (i // 3) for i in range(16)), fixed=True),
    "shared": Costs(target=(1.0,) * 16, draft={"model": (0.5, 0.51)}, fixed=True),
}
"""Others' drafts make one's own dearer; a step is crossed together; a model's passes are shared."""
OTHERS = (
    ((1, 0, 0), {"max_tokens": 3, "num_draft": "auto", "temperature": 1.3}),
    ((0, 0, 1, 0, 0), {"max_tokens": 2, "num_draft": "auto", "drafter": "prediction",
                       "prediction": (1, 1)}),
)  # fmt: skip


def distance(verifier, drafter, costs, *, company=OTHERS, horizon=4, **options):
    model = target(2)
    common = {"prompt": PROMPT, "max_tokens": horizon}
    found = exact_law(
        model, drafter, verifier=verifier, num_draft="auto", costs=costs, company=company,
        **options, **common,
    )  # fmt: skip
    return total_variation(found, plain_law(model, **common))


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("drafter", ["model", "suffix", "suffix+model"])
@pytest.mark.parametrize("costs", COSTS)
def test_in_company(costs, drafter, verifier):
    """One that writes on beside it, with drafts of its own."""
    helper = drafters(2)[drafter]()
    assert distance(verifier, helper, COSTS[costs], company=OTHERS[:1]) < EXACT


@pytest.mark.parametrize(
    ("drafter", "verifier"),
    [
        ("suffix-tree", "coupled"),
        ("suffix-tree", "recursive"),
        ("tree", "coupled"),
        ("tree", "traversal"),
        ("sampled-tree", "traversal"),
        ("sampled-tree", "recursive"),
        ("greedy-plus-one-tree", "greedy_plus_one"),
        ("model", "traversal"),
        ("suffix", "greedy_plus_one"),
    ],
)
@pytest.mark.parametrize("costs", COSTS)
def test_trees_in_company(costs, drafter, verifier):
    """Nodes are rows like any other's."""
    helper = VARIANTS[drafter][""](2)
    assert distance(verifier, helper, COSTS[costs], company=OTHERS[:1]) < EXACT


@pytest.mark.parametrize("verifier", ["rejection", "block"])
@pytest.mark.parametrize("costs", COSTS)
def test_with_two_others_and_predictions(costs, verifier):
    helper, own = ModelDrafter(draft_model(2)), {"prediction": (0, 1, 1, 0)}
    assert distance(verifier, helper, COSTS[costs], horizon=3, **own) < EXACT


def test_the_others_past_does_change_how_far_it_drafts(monkeypatch):
    """With the same past of its own; so the tests above are of something."""
    plans, plan = {}, forerun.decode.plan_batch

    def recorded(seats):
        found = plan(seats)
        own = seats[0]
        seen = {name: (one._counts, one._all) for name, one in own.control._accepts.items()}
        past = pickle.dumps((own.length, own.control._account, seen, own.room))
        if len(seats) > 1:
            plans.setdefault(past, set()).add(found[0].num_draft)
        return found

    monkeypatch.setattr(forerun.decode, "plan_batch", recorded)
    helper = ModelDrafter(draft_model(2))
    assert distance("rejection", helper, COSTS["shared"], company=OTHERS[:1]) < EXACT
    assert max(len(counts) for counts in plans.values()) > 1


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_joint_decision_that_looks_at_the_drafted_tokens(verifier, monkeypatch):
    """All drafts are dropped where this request's own begins with another token than 0."""
    options = (verifier, ModelDrafter(draft_model(2)), COSTS["rows"])
    propose = forerun.decode.propose

    def peeking(*args):
        drafts = propose(*args)
        kept = not drafts[0].proposal or drafts[0].proposal.tree.tokens[0] == 0
        count = None if kept else 0
        return [
            draft if count is None
            else dataclasses.replace(draft, proposal=draft.proposal.first(count))
            for draft in drafts
        ]  # fmt: skip

    assert distance(*options, company=OTHERS[:1]) < EXACT
    monkeypatch.setattr(forerun.decode, "propose", peeking)
    assert distance(*options, company=OTHERS[:1]) > FAR
