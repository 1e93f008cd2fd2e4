"""Every verifier keeps p on every kind of tree, and each planted fault does not: by enumeration.

Of a round alone: tree drawn, judged, completed by p. The whole loop's law is in tests/certify.
"""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest

import forerun.verifiers.recursive
import forerun.verifiers.traversal
from forerun.numerics.token_tree import ROOT, Drawn, TokenTree
from forerun.numerics.tree_shape import widths
from forerun.verifiers import VERIFIERS, verifier

from .trees import KINDS, SHAPES, Laws, distance

EXACT, FAR = 1e-12, 1e-3
TREE_VERIFIERS = [name for name in VERIFIERS if name not in ("rejection", "block")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("drawn", Drawn, ids=lambda drawn: drawn.value)
@pytest.mark.parametrize("name", VERIFIERS)
def test_the_law_of_a_round(name, drawn, shape):
    one = verifier(name)
    if not one.judges(drawn, shape == "chain"):
        pytest.skip("refused when the engine is built")
    for seed in range(1 if drawn is Drawn.SAMPLED else 2):
        assert distance(Laws(seed), SHAPES[shape], drawn, one) < EXACT


@pytest.mark.long
@pytest.mark.parametrize("shape", ["chain", "three at the root", "2x2", "ragged"])
@pytest.mark.parametrize("drawn", Drawn, ids=lambda drawn: drawn.value)
@pytest.mark.parametrize("name", TREE_VERIFIERS)
def test_the_law_of_a_round_at_four_tokens(name, drawn, shape):
    assert distance(Laws(7, vocabulary=4), SHAPES[shape], drawn, verifier(name)) < EXACT


def far(name, shape="three at the root", drawn=Drawn.WITHOUT_REPLACEMENT, **changes):
    """How far the fault leads, in the worst of a few random laws."""
    one = verifier(name) if isinstance(name, str) else name
    return max(distance(Laws(seed, 4), SHAPES[shape], drawn, one, **changes) for seed in range(3))


def ordered(key):
    """Siblings of the root judged in another order than that in which they were drawn."""

    def change(proposal):
        order = sorted(range(len(proposal)), key=lambda node: key(proposal, node))
        tokens = tuple(proposal.tree.tokens[node] for node in order)
        return dataclasses.replace(
            proposal,
            tree=TokenTree(tokens, proposal.tree.parents),
            q=tuple(_without(proposal.q[0], tokens[:i]) for i in range(len(tokens))),
        )

    return change


def _without(q, tokens):
    left = q.copy()
    left[list(tokens)] = 0
    return left / left.sum()


@pytest.mark.parametrize("name", ["recursive", "traversal"])
@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("q", lambda proposal, node: -proposal.q[0][proposal.tree.tokens[node]]),
        ("id", lambda proposal, node: proposal.tree.tokens[node]),
        ("as drawn", lambda proposal, node: node),
    ],
)
def test_children_judged_in_another_order(by, key, name):
    found = far(name, "two at the root", change=ordered(key))
    assert found < EXACT if by == "as drawn" else found > FAR


def unlikely(p, proposal, node):
    return -p[proposal.tree.tokens[node]]


@pytest.mark.parametrize("name", ["recursive", "traversal"])
def test_children_judged_in_an_order_that_depends_on_p(name):
    worst = 0.0
    for seed in range(3):
        laws = Laws(seed, 4)
        change = ordered(partial(unlikely, laws.p(())))
        one, drawn = verifier(name), Drawn.WITHOUT_REPLACEMENT
        worst = max(worst, distance(laws, SHAPES["two at the root"], drawn, one, change=change))
    assert worst > FAR


@pytest.mark.parametrize("name", ["recursive", "traversal", "greedy_plus_one"])
def test_a_drawn_child_cut_by_its_own_q(name):
    def cut(proposal):
        drawn = zip(proposal.tree.tokens, proposal.q)
        kept = [i for i, (token, q) in enumerate(drawn) if q[token] > 0.3]
        tokens = tuple(proposal.tree.tokens[i] for i in kept)
        tree = TokenTree(tokens, (ROOT,) * len(kept))
        return dataclasses.replace(proposal, tree=tree, q=tuple(proposal.q[i] for i in kept))

    assert far(name, "two at the root") < EXACT
    assert far(name, "two at the root", change=cut) > FAR


@pytest.mark.parametrize("name", ["recursive", "traversal"])
def test_q_not_renormalised_after_a_rejection(name):
    def change(proposal):
        q = []
        for i in range(len(proposal)):
            left = proposal.q[0].copy()
            left[list(proposal.tree.tokens[:i])] = 0
            q.append(left)
        return dataclasses.replace(proposal, q=tuple(q))

    assert far(name, change=change) > FAR


@pytest.mark.parametrize("name", ["recursive", "traversal"])
def test_children_drawn_without_replacement_judged_as_if_independent(name):
    def change(proposal):
        return dataclasses.replace(proposal, q=(proposal.q[0],) * len(proposal))

    assert far(name, change=change) > FAR


def test_greedy_plus_one_with_q_in_the_place_of_its_rest():
    def change(proposal):
        laws = (*proposal.q[:-1], np.full(4, 0.25))
        return dataclasses.replace(proposal, q=laws)

    options = {"drawn": Drawn.GREEDY_PLUS_ONE, "shape": "two at the root"}
    assert far("greedy_plus_one", **options) < EXACT
    assert far("greedy_plus_one", change=change, **options) > FAR


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s, alpha: s / (s + 1),
        lambda s, alpha: alpha * s / (s + 1 - alpha) if s else 0.0,
        lambda s, alpha: alpha,
        lambda s, alpha: min(s / max(1 - alpha, 1e-300), 1.0),
    ],
    ids=["S / (S + 1)", "α twice", "as it was", "S / (1 − α)"],
)
@pytest.mark.parametrize("shape", ["chain", "2x2"])
def test_traversal_with_a_wrong_update(shape, wrong, monkeypatch):
    drawn = Drawn.SAMPLED if shape == "chain" else Drawn.WITHOUT_REPLACEMENT
    shapes = {"chain": widths((1, 1)), "2x2": SHAPES["2x2"]}

    def worst():
        laws = (Laws(seed, 3) for seed in range(3))
        return max(distance(one, shapes[shape], drawn, verifier("traversal")) for one in laws)

    assert worst() < EXACT
    monkeypatch.setattr(forerun.verifiers.traversal, "carried", wrong)
    assert worst() > FAR


@pytest.mark.parametrize("name", ["recursive", "traversal"])
def test_a_residual_of_p_itself(name, monkeypatch):
    module = getattr(forerun.verifiers, name)
    monkeypatch.setattr(module, "residual", lambda p, q, token, scale=1.0: p)
    assert far(name) > FAR


def test_every_kind_of_draw_is_covered():
    assert set(KINDS) == set(Drawn)
