from __future__ import annotations

import pytest

from forerun.numerics.token_tree import NOTHING, Proposal, TokenTree


def test_the_docstrings_example():
    tree = TokenTree((7, 8, 9, 5), (-1, 0, 1, 0))
    assert tree.depths == (1, 2, 3, 2)
    assert tree.path(2) == (0, 1, 2)
    assert tree.path(3) == (0, 3)
    assert tree.path_tokens(3) == (7, 5)
    assert tree.path(-1) == ()
    assert tree.children == {-1: (0,), 0: (1, 3), 1: (2,), 2: (), 3: ()}
    assert [tree.children_of(node) for node in range(-1, 4)] == list(tree.children.values())
    assert not tree.is_chain


def test_a_chain():
    tree = TokenTree.chain([4, 4, 6])
    assert tree.parents == (-1, 0, 1)
    assert tree.is_chain
    assert [tree.path(node) for node in range(-1, 3)] == [(), (0,), (0, 1), (0, 1, 2)]
    assert [tree.path_tokens(node) for node in range(-1, 3)] == [(), (4,), (4, 4), (4, 4, 6)]
    assert [tree.children_of(node) for node in range(-1, 3)] == list(tree.children.values())
    assert TokenTree().is_chain
    assert TokenTree().children_of(-1) == ()
    assert len(NOTHING) == 0


def test_parents_come_first():
    with pytest.raises(ValueError, match="node 0 has parent 0"):
        TokenTree((1,), (0,))
    with pytest.raises(ValueError, match="1 tokens but 2 parents"):
        TokenTree((1,), (-1, 0))


def test_a_proposal_has_a_law_for_each_token():
    with pytest.raises(ValueError, match="2 drafted tokens but 1 draft laws"):
        Proposal(tree=TokenTree.chain([1, 2]), q=(None,))
    assert Proposal.point_mass([3, 1]).q == (None, None)
