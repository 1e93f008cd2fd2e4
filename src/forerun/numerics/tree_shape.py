"""Shapes of token trees, before any token is known: parents, as in `TokenTree`, parents first.

    widths((2, 2))     root ── 0 ── 2          parents (−1, −1, 0, 0, 1, 1): two children at each
                        │      └── 3           node, down to depth 2
                        └── 1 ── 4
                               └── 5

A shape cut to its first n nodes is a shape: parents come first. Of nodes with an estimated chance
to be accepted, each the product of those on its path, `best` takes the n with the largest; for
chances that fall with a child's rank no tree of n nodes is expected to accept more, so that the
dynamic programme of Sequoia finds no better (Chen et al. 2024, arXiv 2402.12374, section 3.1).

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
    order = sorted(range(len(tree)), key=lambda node: tree.depths[node])
    new = {ROOT: ROOT} | {node: i for i, node in enumerate(order)}
    return tuple(new[tree.parents[node]] for node in order)


def best(ranks: Sequence[float], nodes: int, depth: int | None = None) -> Shape:
    """The shape of `nodes` nodes that is expected to accept most, in breadth-first order.

    `ranks[i]` is Pr(child i of an accepted node is the one accepted); they must not rise.
    `depth` bounds the tree's.
    """
    if any(later > earlier for earlier, later in pairwise(ranks)):
        raise OptionError(f"chances by rank must not rise, and {tuple(ranks)} do")
    # nodes that could be next, by −chance and the order they came in: depth, parent, rank
    coming = [(-ranks[0], 0, 1, ROOT, 0)] if ranks else []
    found: list[tuple[int, int]] = []  # parent, depth
    serial = 1
    while coming and len(found) < nodes:
        negative, _, at, parent, rank = heapq.heappop(coming)
        node = len(found)
        found.append((parent, at))
        if depth is None or at < depth:
            heapq.heappush(coming, (negative * ranks[0], serial, at + 1, node, 0))
        if rank + 1 < len(ranks):
            beside = negative / ranks[rank] * ranks[rank + 1] if ranks[rank] else 0.0
            heapq.heappush(coming, (beside, serial + 1, at, parent, rank + 1))
        serial += 2
    return checked_shape([parent for parent, _ in found]) if found else ()


def expected(ranks: Sequence[float], shape: Shape) -> float:
    """Σ over nodes of the chances on their paths: drafted tokens that `shape` is expected to have
    accepted."""
    seen: dict[int, int] = {}
    chances: list[float] = []
    for parent in shape:
        rank = seen.get(parent, 0)
        seen[parent] = rank + 1
        above = 1.0 if parent == ROOT else chances[parent]
        chances.append(above * (ranks[rank] if rank < len(ranks) else 0.0))
    return sum(chances)


def best_for(ranks: Sequence[float], seconds: Sequence[float], draft: float = 0.0) -> Shape:
    """The shape with the most tokens per second: `seconds[n]` of a target pass over n + 1 rows,
    `draft` of a draft model's pass, one for each level. () where plain decoding is faster."""
    found: Shape = ()
    rate = 1 / seconds[0]
    for nodes in range(1, min(len(seconds) - 1, MOST) + 1):
        for depth in range(1, nodes + 1):
            shape = best(ranks, nodes, depth)
            deep = max(TokenTree((0,) * len(shape), shape).depths, default=0)
            if deep < depth:
                break
            tokens = 1 + expected(ranks, shape)
            if tokens / (seconds[nodes] + deep * draft) > rate:
                rate, found = tokens / (seconds[nodes] + deep * draft), shape
    return found
