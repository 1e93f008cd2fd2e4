"""Given the depth within the round, too, a token follows p: what bets by depth rest on.

One round of each verifier is run under every outcome of its randomness. For each depth and each
prefix the mass of the next token is compared with p, exactly. A verifier that owes something to its
next round would fail here, and must be tested without depths.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from certify.test_mutants import FirstFailure
from forerun.certify.enumerate import EnumeratedDraws, Tape
from forerun.certify.suite import table
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree
from forerun.verifiers import VERIFIERS, BlockVerifier, CoupledVerifier, RejectionVerifier
from verifiers.trees import SHAPES, Laws, rounds

V, GAMMA = 3, 3
P, Q = table(V, 1, zeros=True), table(V, 2)


def masses(verifier):
    """(path, next token) -> mass of the rounds that emit the path and then this token."""
    tape, found, more = Tape(), defaultdict(float), True
    while more:
        tape.rewind()
        draws = EnumeratedDraws(tape)
        draws.begin_round(0, 1)
        drafted, laws = [], []
        for _ in range(GAMMA):
            laws.append(np.array(Q((0, *drafted))))
            drafted.append(tape.choose(laws[-1].tolist()))
        proposal = Proposal(tree=TokenTree.chain(drafted), q=tuple(laws), drawn=Drawn.SAMPLED)
        p = [np.array(P((0, *drafted[:i]))) for i in range(GAMMA + 1)]
        verdict = verifier.verify(proposal, p, draws)
        emitted = (*(drafted[i] for i in verdict.path), verdict.token)
        for depth in range(len(emitted)):
            found[emitted[:depth], emitted[depth]] += tape.weight
        more = tape.advance()
    return found


def furthest(verifier):
    """Largest deviation of the next token's law from p, over depths and prefixes."""
    found, worst, seen = masses(verifier), 0.0, set()
    for path in {path for path, _ in found}:
        mass = np.array([found.get((path, x), 0.0) for x in range(V)])
        worst = max(worst, float(np.abs(mass / mass.sum() - P((0, *path))).max()))
        seen.add(len(path))
    assert seen == set(range(GAMMA + 1))
    return worst


def of_tree(laws, shape, drawn, verifier):
    """As `furthest`, of a round with a tree."""
    found, worst = defaultdict(float), 0.0
    for weight, proposal, verdict in rounds(laws, shape, drawn, verifier):
        emitted = (*(proposal.tree.tokens[node] for node in verdict.path), verdict.token)
        for depth in range(len(emitted)):
            found[emitted[:depth], emitted[depth]] += weight
    for path in {path for path, _ in found}:
        mass = np.array([found.get((path, x), 0.0) for x in range(laws.vocabulary)])
        worst = max(worst, float(np.abs(mass / mass.sum() - laws.p(path)).max()))
    assert max(len(path) for path, _ in found) == max(TokenTree((0,) * len(shape), shape).depths)
    return worst


OF_TREES = [
    (name, drawn) for name in VERIFIERS for drawn in Drawn if VERIFIERS[name]().judges(drawn, False)
]


@pytest.mark.parametrize("shape", ["2x2", "three at the root"])
@pytest.mark.parametrize(("name", "drawn"), OF_TREES)
def test_tokens_of_trees_follow_p_at_each_depth(name, drawn, shape):
    assert of_tree(Laws(3), SHAPES[shape], drawn, VERIFIERS[name]()) < 1e-12


@pytest.mark.parametrize("verifier", [RejectionVerifier(), BlockVerifier(), CoupledVerifier()])
def test_tokens_follow_p_at_each_depth(verifier):
    assert furthest(verifier) < 1e-12


def test_a_faulty_verifier_does_not():
    assert furthest(FirstFailure()) > 1e-3
