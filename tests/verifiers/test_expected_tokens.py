"""How many tokens a pass brings, by enumeration: what holds of every pair of laws."""

from __future__ import annotations

import pytest

from forerun.numerics.token_tree import Drawn
from forerun.numerics.tree_shape import widths
from forerun.verifiers import verifier

from .trees import Laws, tokens_per_pass

CHAIN, TREE = widths((1, 1)), widths((2, 2))
SLACK = 1e-12


def at_equal_depth(seed):
    """The chain is the tree's first path."""
    laws, replaced = Laws(seed), Drawn.WITHOUT_REPLACEMENT
    return {
        "rejection": tokens_per_pass(laws, CHAIN, Drawn.SAMPLED, verifier("rejection")),
        "block": tokens_per_pass(laws, CHAIN, Drawn.SAMPLED, verifier("block")),
        "recursive": tokens_per_pass(laws, TREE, replaced, verifier("recursive")),
        "traversal": tokens_per_pass(laws, TREE, replaced, verifier("traversal")),
    }


def check(seed):
    found = at_equal_depth(seed)
    assert found["traversal"] >= found["recursive"] - SLACK
    assert found["recursive"] >= found["rejection"] - SLACK
    assert found["traversal"] >= found["block"] - SLACK
    assert found["block"] >= found["rejection"] - SLACK


@pytest.mark.parametrize("seed", range(8))
def test_the_order_at_equal_depth(seed):
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8, 200))
def test_the_order_at_equal_depth_on_two_hundred_laws(seed):
    check(seed)
