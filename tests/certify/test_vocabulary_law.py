"""The exact law with draft models of other vocabularies, and faults of translating.

Vocabularies that overlap, contain each other, have their ids in other orders; the draft reads the
text in tokens of its own. test_exact_law.py has one of them with every control.
"""

from __future__ import annotations

import numpy as np
import pytest

from certify.tables import COMPANY, COSTS, PROMPT, controls, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.certify.suite import CHAIN_VERIFIERS, foreign
from forerun.certify.vocabularies import pieces
from forerun.drafters import (
    HybridDrafter,
    IntersectionDrafter,
    NgramDrafter,
    StringMatchDrafter,
    SuffixDrafter,
)
from forerun.numerics.token_tree import Drawn, Proposal

EXACT, FAR = 1e-12, 1e-3
V = 3
OWN = pieces(V)  # a, b, aa
OTHERS = {
    "other order": OWN[::-1],
    "contained": OWN[:0:-1],
    "containing": [b"bab", *OWN[::-1], b"c"],
    "overlapping": [b"ab", OWN[1], OWN[0], b"c"],
}
KINDS = {"intersection": IntersectionDrafter, "string-match": StringMatchDrafter}
LAWS = ["rejection", "block"]


def distance(verifier, drafter, *, eos=False, num_draft=2, **options):
    model = target(V, eos=V - 1 if eos else None)
    law = {name: options.pop(name) for name in ("company", "costs") if name in options}
    common = {"prompt": PROMPT, "max_tokens": 3, **options}
    found = exact_law(model, drafter, verifier=verifier, num_draft=num_draft, **law, **common)
    return total_variation(found, plain_law(model, **common))


def made(kind, which="containing"):
    return KINDS[kind](foreign(V, OTHERS[which]))


@pytest.mark.parametrize("control", ["plain", "greedy", "top-p", "repetition penalty", "ban"])
@pytest.mark.parametrize("verifier", [*CHAIN_VERIFIERS, "auto"])
@pytest.mark.parametrize("which", OTHERS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_vocabulary(kind, which, verifier, control):
    options = controls(V)[control]
    assert distance(verifier, made(kind, which), eos=True, **options) < EXACT


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("kind", KINDS)
def test_company_and_longer_drafts(kind, verifier):
    assert distance(verifier, made(kind), company=COMPANY) < EXACT
    assert distance(verifier, made(kind), num_draft=4, max_tokens=4) < EXACT


@pytest.mark.parametrize("verifier", CHAIN_VERIFIERS)
@pytest.mark.parametrize("num_draft", [2, "auto"])
@pytest.mark.parametrize("first", [SuffixDrafter, NgramDrafter])
@pytest.mark.parametrize("kind", KINDS)
def test_beside_a_lookup(kind, first, num_draft, verifier):
    helper = HybridDrafter([first(), made(kind)])
    assert distance(verifier, helper, num_draft=num_draft, costs=COSTS, max_tokens=4) < EXACT


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_drafted_and_kept(kind):
    """Otherwise nothing here could fail."""
    drafted = []

    class Counting(KINDS[kind]):
        def propose(self, requests):
            drafted.extend(found := super().propose(requests))
            return found

    for which in OTHERS:
        drafted.clear()
        distance("coupled", Counting(foreign(V, OTHERS[which])), num_draft=3)
        assert sum(map(len, drafted)) > len(drafted) / 2, which


# ------------------------------------------------------------------ faults of translating


class Faulty(IntersectionDrafter):
    """Reports, for each token, the law that `report` makes of the one it was drawn from."""

    def __init__(self, report, which="containing"):
        super().__init__(foreign(V, OTHERS[which]))
        self.report = report

    def propose(self, requests):
        return [
            Proposal(
                tree=one.tree,
                q=tuple(self.report(q, x) for q, x in zip(one.q, one.tree.tokens)),
                drawn=Drawn.SAMPLED,
            )
            for one in super().propose(requests)
        ]


def permuted(q, x):
    """The mass of each token at another's place, as if ids were mapped in the wrong order."""
    other = np.roll(q, 1)
    return other if other[x] > 0 else q


def not_renormalised(q, x):
    """The draft's own probabilities: those of tokens that the target lacks are left out."""
    return 0.6 * np.asarray(q)


def leaking(q, x):
    """Mass that fell outside the intersection, given to one of its tokens."""
    other = 0.7 * np.asarray(q)
    other[0] += 0.3
    return other


@pytest.mark.parametrize("verifier", LAWS)
@pytest.mark.parametrize("report", [permuted, not_renormalised, leaking])
def test_a_q_that_is_not_the_law_drawn_from(report, verifier):
    assert distance(verifier, Faulty(lambda q, x: q)) < EXACT
    assert distance(verifier, Faulty(report)) > FAR


class WrongOrder(IntersectionDrafter):
    """Draws by one numbering and proposes by another: ids reach the target untranslated."""

    shift = 1

    def _proposal(self, chain):
        found = super()._proposal(chain)
        tokens = [(token + self.shift) % V for token in found.tree.tokens]
        for i, q in enumerate(found.q):
            if q[tokens[i]] == 0:
                tokens, found = tokens[:i], found.first(i)
                break
        return Proposal(tree=type(found.tree).chain(tokens), q=found.q, drawn=Drawn.SAMPLED)


@pytest.mark.parametrize("verifier", LAWS)
def test_ids_mapped_in_the_wrong_order(verifier):
    class Right(WrongOrder):
        shift = 0

    draft = foreign(V, OTHERS["other order"])
    assert distance(verifier, Right(draft)) < EXACT
    assert distance(verifier, WrongOrder(draft)) > FAR


class Resampled(IntersectionDrafter):
    """A token outside the intersection is drawn as well, and another proposed in its place, with
    the law of those inside: what is left after a draw that was thrown away."""

    def _draft(self, chain, logits):
        more = super()._draft(chain, logits)
        if chain.found and len(chain.found) == len(chain.tokens) and chain.found[-1] == 0:
            chain.found[-1], chain.tokens[-1] = 1, self.translator.to_draft[1]
        return more


@pytest.mark.parametrize("verifier", LAWS)
def test_a_token_replaced_after_it_was_drawn(verifier):
    draft = foreign(V, OTHERS["containing"])
    assert distance(verifier, Resampled(draft)) > FAR


class Peeking(StringMatchDrafter):
    """Passes what it matched for a sampled draft, with the law of a model."""

    def _proposal(self, chain):
        found = super()._proposal(chain)
        q = np.full(V, 1 / V)
        return Proposal(tree=found.tree, q=(q,) * len(found), drawn=Drawn.SAMPLED)


@pytest.mark.parametrize("verifier", LAWS)
def test_a_matched_text_that_passes_for_a_sampled_one(verifier):
    draft = foreign(V, OTHERS["containing"])
    assert distance(verifier, StringMatchDrafter(draft)) < EXACT
    assert distance(verifier, Peeking(draft)) > FAR
