"""The exact law of a request whose γ is decided together with that of others."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

import forerun.decode
from certify.tables import CHAIN_VERIFIERS, PROMPT, draft_model, drafters, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.certify.suite import VARIANTS
from forerun.drafters import (
    GreedyPlusOneTreeDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    SampledTreeDrafter,
)
from forerun.numerics.token_tree import NOTHING
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
TREES = {
    "tree": (LikeliestTreeDrafter, ("coupled", "recursive")),
    "sampled-tree": (SampledTreeDrafter, ("coupled", "recursive", "traversal")),
    "greedy-plus-one-tree": (GreedyPlusOneTreeDrafter, ("greedy_plus_one", "traversal")),
}
TREE_COSTS = Costs(
    target=tuple(1 + 0.05 * i for i in range(4)),
    draft=dict.fromkeys(TREES, (0.06, 0.07, 0.08)),
    fixed=True,
)
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


# ------------------------------------------------------------------ trees


@pytest.mark.parametrize(
    ("name", "verifier"), [(n, v) for n, (_, fits) in TREES.items() for v in fits]
)
def test_trees_whose_shape_is_decided_in_company(name, verifier):
    helper = TREES[name][0](draft_model(2))
    assert distance(verifier, helper, TREE_COSTS, company=OTHERS[:1], horizon=3) < EXACT


def test_the_shape_does_change_with_what_was_accepted(monkeypatch):
    """At the same size too; so the tests above are of something."""
    shapes, plan = {}, forerun.decode.plan_batch

    def recorded(seats):
        found = plan(seats)
        for one in found:
            shapes.setdefault(one.num_draft, set()).add(one.shape)
        return found

    monkeypatch.setattr(forerun.decode, "plan_batch", recorded)
    helper = SampledTreeDrafter(draft_model(2))
    assert distance("traversal", helper, TREE_COSTS, company=(), horizon=6) < EXACT
    assert len(shapes) > 2
    assert max(len(found) for found in shapes.values()) > 1


@pytest.mark.parametrize("verifier", ["recursive", "traversal"])
def test_a_size_that_looks_at_the_drafted_tokens(verifier, monkeypatch):
    """There is no tree where its first child is another token than 0."""
    options = (verifier, SampledTreeDrafter(draft_model(2)), TREE_COSTS)
    propose = forerun.decode.propose

    def peeking(*args):
        return [
            draft
            if not draft.proposal or draft.proposal.tree.tokens[0] == 0
            else dataclasses.replace(draft, proposal=NOTHING)
            for draft in propose(*args)
        ]

    monkeypatch.setattr(forerun.decode, "propose", peeking)
    assert distance(*options, company=(), horizon=3) > FAR
