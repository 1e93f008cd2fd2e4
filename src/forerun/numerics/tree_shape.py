"""Shapes of token trees, before any token is known: parents, as in `TokenTree`, parents first.

    widths((2, 2))     root ── 0 ── 2          parents (−1, −1, 0, 0, 1, 1): two children at each
                        │      └── 3           node, down to depth 2
                        └── 1 ── 4
                               └── 5

A shape cut to its first n nodes is a shape: parents come first. Of nodes with an estimated chance
to be accepted, each the product of those on its path, `growth` takes the n with the largest, one
after another; for chances that fall with a child's rank no tree of n nodes is expected to accept
more, so that the dynamic programme of Sequoia finds no better (Chen et al. 2024, arXiv 2402.12374,
section 3.1). How many pay, and how deep, is `company.py`'s to say, by what passes cost.

What this module does not know: tokens, laws.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from forerun.errors import OptionError
from forerun.numerics.token_tree import ROOT, TokenTree
from forerun.sampling import is_whole

Shape = tuple[int, ...]
"""`parents[N]` in breadth-first order; −1 is the root."""

MOST = 64
"""Nodes of a tree."""

USUAL = (0.6, 0.2, 0.1, 0.05)
"""Chances by rank that shape a tree where none are known."""


def widths(counts: Sequence[int]) -> Shape:
    """Every node at depth d has `counts[d]` children, drawn in order, the root at depth 0."""
    parents: list[int] = []
    level = [ROOT]
    for count in counts:
        start = len(parents)
        parents += [node for node in level for _ in range(count)]
        level = list(range(start, len(parents)))
    return tuple(parents)


def checked_shape(shape: Any) -> Shape:
    """Widths such as (3, 2, 1), or parents such as (−1, −1, 0, 1), in breadth-first order.

    OptionError for what is neither, or has more than MOST nodes."""
    if isinstance(shape, str) or not isinstance(shape, Sequence) or not shape:
        raise OptionError(f"a tree's shape is widths or parents, such as (3, 2, 1), not {shape!r}")
    if not all(is_whole(n) for n in shape):
        raise OptionError(f"a tree's shape is of whole numbers, not {shape!r}")
    if all(n > 0 for n in shape):
        nodes, level = 0, 1
        for count in shape:
            level *= count
            nodes += level
            if nodes > MOST:
                raise OptionError(f"a tree has at most {MOST} nodes, {tuple(shape)} has more")
        return widths(shape)
    try:
        tree = TokenTree((0,) * len(shape), tuple(shape))
    except ValueError as error:
        raise OptionError(f"{tuple(shape)} is no shape of a tree: {error}") from None
    if len(tree) > MOST:
        raise OptionError(f"a tree has at most {MOST} nodes, not {len(tree)}")
    return breadth_first(tree.parents)


def breadth_first(parents: Sequence[int]) -> Shape:
    """The same tree, its nodes level by level; siblings stay in their order."""
    depths = depths_of(parents)
    return _of(parents, sorted(range(len(parents)), key=lambda node: depths[node]))


def depths_of(parents: Sequence[int]) -> tuple[int, ...]:
    """Of each node, 1 for the root's children."""
    return TokenTree((0,) * len(parents), tuple(parents)).depths


def growth(
    ranks: Sequence[float], nodes: int, depth: int = MOST, within: Shape | None = None
) -> tuple[Shape, tuple[float, ...]]:
    """Parents and chances of the `nodes` likeliest nodes of all trees as deep as `depth`, or of
    those of one shape: in falling order, parents first, so that the first n are the best n.

    `ranks[i]` is Pr(child i of an accepted node is the one accepted); OptionError where they rise.
    """
    if any(later > earlier for earlier, later in pairwise(ranks)):
        raise OptionError(f"chances by rank must not rise, and {tuple(ranks)} do")
    if within is not None:
        known, depths = chances(ranks, within), depths_of(within)
        order = sorted(range(len(within)), key=lambda node: -known[node])
        order = [node for node in order if depths[node] <= depth][:nodes]
        return _of(within, order), tuple(known[node] for node in order)
    # nodes that could be next, by −chance and the order they came in: depth, parent, rank
    coming = [(-ranks[0], 0, 1, ROOT, 0)] if ranks else []
    parents: list[int] = []
    found: list[float] = []
    serial = 1
    while coming and len(found) < nodes:
        negative, _, at, parent, rank = heapq.heappop(coming)
        node = len(found)
        parents.append(parent)
        found.append(-negative)
        if at < depth:
            heapq.heappush(coming, (negative * ranks[0], serial, at + 1, node, 0))
        if rank + 1 < len(ranks):
            beside = negative / ranks[rank] * ranks[rank + 1] if ranks[rank] else 0.0
            heapq.heappush(coming, (beside, serial + 1, at, parent, rank + 1))
        serial += 2
    return tuple(parents), tuple(found)


def best(ranks: Sequence[float], nodes: int, depth: int = MOST) -> Shape:
    """The shape of `nodes` nodes that is expected to accept most; see `growth`."""
    return breadth_first(growth(ranks, nodes, depth)[0])


def chances(ranks: Sequence[float], shape: Shape) -> list[float]:
    """Of each node: that it is accepted, the product of the chances on its path."""
    seen: dict[int, int] = {}
    found: list[float] = []
    for parent in shape:
        rank = seen.get(parent, 0)
        seen[parent] = rank + 1
        above = 1.0 if parent == ROOT else found[parent]
        found.append(above * (ranks[rank] if rank < len(ranks) else 0.0))
    return found


def _of(parents: Sequence[int], order: Sequence[int]) -> Shape:
    """The nodes of `order` alone, numbered anew; parents are among them and come first."""
    new = {ROOT: ROOT} | {node: i for i, node in enumerate(order)}
    return tuple(new[parents[node]] for node in order)
