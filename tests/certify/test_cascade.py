"""Chains and trees in one cascade: who drafts in a round follows from the past alone, and the law
is exact whoever it is."""

from __future__ import annotations

import pytest

from certify.tables import COMPANY, PROMPT, draft_model, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import (
    GreedyPlusOneTreeDrafter,
    HybridDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    SampledTreeDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.pace import Costs
from forerun.verifiers import VERIFIERS, verifier

EXACT, FAR = 1e-12, 1e-3
TWIG = (-1, -1, 0)
PARTS = {
    "suffix+sampled-tree": lambda: [
        SuffixDrafter(min_probability=0.0),
        SampledTreeDrafter(draft_model(2), shape=TWIG),
    ],
    "suffix+greedy-plus-one-tree": lambda: [
        SuffixDrafter(min_probability=0.0),
        GreedyPlusOneTreeDrafter(draft_model(2), shape=TWIG),
    ],
    "suffix-tree+model": lambda: [SuffixTreeDrafter(), ModelDrafter(draft_model(2))],
    "ngram+tree": lambda: [NgramDrafter(), LikeliestTreeDrafter(draft_model(2))],
    "model+sampled-tree": lambda: [
        ModelDrafter(draft_model(2)),
        SampledTreeDrafter(draft_model(2), shape=TWIG),
    ],
}
MODELS = ("model", "tree", "sampled-tree", "greedy-plus-one-tree")
COSTS = {  # of a model's passes: as little as a lookup's, or so much that lookups come first
    "cheap": Costs(
        target=tuple(1 + 0.04 * i for i in range(4)),
        draft=dict.fromkeys(MODELS, (0.01,)),
        fixed=True,
    ),
    "dear": Costs(
        target=tuple(1 + 0.04 * i for i in range(4)),
        draft=dict.fromkeys(MODELS, (0.2, 0.22, 0.24)),
        fixed=True,
    ),
}


ASKED: set[str] = set()


class Watched(HybridDrafter):
    """Notes who was asked, and where: the enumeration copies drafters."""

    def propose(self, requests):
        ASKED.update(request.drafter for request in requests)
        return super().propose(requests)


def distance(judge, helper, costs, *, company=(), horizon=4):
    common = {"prompt": PROMPT * 2, "max_tokens": horizon}
    found = exact_law(
        target(2), helper, verifier=judge, num_draft="auto", costs=costs, company=company, **common
    )
    return total_variation(found, plain_law(target(2), **common))


def fitting(names):
    parts = PARTS[names]()
    return [
        judge
        for judge in VERIFIERS
        if all(verifier(judge).judges(one.traits.drawn, one.traits.chain) for one in parts)
    ]


PAIRS = [(names, judge) for names in PARTS for judge in fitting(names)]


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize(("names", "judge"), PAIRS)
def test_it_is_exact(names, judge, costs):
    assert distance(judge, Watched(PARTS[names]()), COSTS[costs]) < EXACT


@pytest.mark.parametrize("names", PARTS)
def test_each_of_them_drafts(names):
    """Else nothing would be shown of the choice."""
    ASKED.clear()
    for costs in COSTS.values():
        distance(fitting(names)[0], Watched(PARTS[names]()), costs)
    assert set(names.split("+")) <= ASKED


@pytest.mark.parametrize(("names", "judge"), PAIRS)
def test_so_it_is_in_company(names, judge):
    others = [(COMPANY[0][0], {"num_draft": "auto", "max_tokens": 3})]
    helper = Watched(PARTS[names]())
    assert distance(judge, helper, COSTS["cheap"], company=others, horizon=3) < EXACT


class Peeking(HybridDrafter):
    """A fault: whose draft is taken depends on what was drawn."""

    def propose(self, requests):
        first, second = (
            [part.propose([request])[0] for request in requests] for part in self.parts.values()
        )
        return [a if a.tree.tokens[:1] == (0,) else b for a, b in zip(first, second)]


@pytest.mark.parametrize("judge", ["recursive", "traversal"])
def test_a_choice_by_what_was_drawn_is_found(judge):
    model = draft_model(2)
    helper = Peeking([SampledTreeDrafter(model, shape=TWIG), SuffixDrafter(min_probability=0.0)])
    common = {"prompt": PROMPT * 2, "max_tokens": 4}
    found = exact_law(target(2), helper, verifier=judge, num_draft=3, **common)
    assert total_variation(found, plain_law(target(2), **common)) > FAR
