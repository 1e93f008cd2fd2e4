"""Branches of a suffix tree and of a draft model in one tree."""

from __future__ import annotations

import numpy as np
import pytest

from forerun import Engine
from forerun.drafters import JoinedTreeDrafter, LikeliestTreeDrafter, SuffixTreeDrafter
from forerun.drafters.joined_tree import joined
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import TokenTree

from .contract import V, ask

SAT, ON, DOWN, RAN, DOT = 1, 2, 3, 4, 5
LOOKUP = [(SAT, -1, 0.8), (ON, 0, 0.7)]
MODEL = [(SAT, -1, 0.5), (RAN, -1, 0.2), (DOWN, 0, 0.3)]


def paths(tree: TokenTree) -> set[tuple[int, ...]]:
    return {tree.path_tokens(node) for node in range(len(tree))}


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, {(SAT,)}),
        (2, {(SAT,), (SAT, ON)}),
        (3, {(SAT,), (SAT, ON), (SAT, DOWN)}),
        (9, {(SAT,), (SAT, ON), (SAT, DOWN), (RAN,)}),
    ],
)
def test_the_likeliest_of_both(most: int, expected: set[tuple[int, ...]]) -> None:
    for first, second in ((LOOKUP, MODEL), (MODEL, LOOKUP)):
        found = joined(first, second, most, ())
        assert paths(found) == expected
        assert len(found) == len(expected), "a node of both stands there once"


def test_neither_is_believed_blindly() -> None:
    sure = [(DOWN, i - 1, 1.0) for i in range(9)]
    assert {(SAT,), (SAT, ON)} <= paths(joined(LOOKUP, sure, 6, ()))
    assert {(SAT,), (SAT, ON)} <= paths(joined(sure, LOOKUP, 6, ()))
    assert len(joined(LOOKUP, sure, 6, ())) == 6


def test_nothing_stands_below_an_end() -> None:
    lookup = [(DOT, -1, 0.9), (SAT, 0, 0.8), (ON, 1, 0.7)]
    assert paths(joined(lookup, MODEL, 9, {DOT})) == {(DOT,), (SAT,), (RAN,), (SAT, DOWN)}


def test_one_of_them_may_have_nothing() -> None:
    assert paths(joined([], MODEL, 9, ())) == {(SAT,), (RAN,), (SAT, DOWN)}
    assert paths(joined(LOOKUP, [], 9, ())) == {(SAT,), (SAT, ON)}
    assert len(joined([], [], 9, ())) == 0


def test_a_request_gets_branches_from_both() -> None:
    model = TabularModel(lambda prefix: np.array([0, 0.8, 0.1, 0.1]), V)
    drafter = JoinedTreeDrafter(model, depth=2)
    prompt = [0, 1, 2, 0, 1, 2, 0, 1]
    drafter.begin(0, prompt)
    (proposal,) = drafter.propose([ask(0, prompt, (), num_draft=6)])
    found = paths(proposal.tree)
    assert {(2,), (2, 0), (1,), (1, 1)} <= found
    assert proposal.q == (None,) * len(proposal)


def test_it_accepts_what_either_would() -> None:
    """A text that repeats itself, and then goes on as the draft model alone knows."""
    dice = np.random.default_rng(3)
    text = [int(t) for t in dice.integers(0, 8, 16)] * 3 + dice.integers(0, 8, 48).tolist()
    target = TabularModel(lambda prefix: np.eye(8)[text[len(prefix) % len(text)]], 8)
    half = TabularModel(
        lambda prefix: np.eye(8)[text[len(prefix) % len(text)] if len(prefix) > 48 else 0], 8
    )
    rounds = {}
    for drafter in (JoinedTreeDrafter(half), LikeliestTreeDrafter(half), SuffixTreeDrafter()):
        with Engine(target, drafter, num_draft=6) as engine:
            done = engine.generate(text[:2], max_tokens=len(text) - 2, temperature=0)
        assert list(done.tokens) == text[2:]
        rounds[drafter.name] = done.stats.rounds
    assert rounds["joined-tree"] < min(rounds["tree"], rounds["suffix-tree"])
