"""Drafted tokens as a tree, and the proposal that carries the laws they came from.

    node      0   1   2   3            root ── 0 ── 1 ── 2
    parents  -1   0   1   0                    └── 3
    depth     1   2   3   2
    path(2) = (0, 1, 2)                path(3) = (0, 3)

The root (−1) is the last token of the prefix; it is not a node. Parents come before children, and
siblings stand in the order they were drawn. A chain is a tree without branches.

What this module does not know: models, caches, where the tokens came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

ROOT = -1


@dataclass(frozen=True)
class TokenTree:
    """`tokens[N]` and `parents[N]` (−1 = root, parents first). ValueError for anything else."""

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise ValueError(f"{len(self.tokens)} tokens but {len(self.parents)} parents")
        for node, parent in enumerate(self.parents):
            if not ROOT <= parent < node:
                raise ValueError(
                    f"node {node} has parent {parent}; parents come first (−1 is the root)"
                )

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> TokenTree:
        return cls(tuple(tokens), tuple(range(ROOT, len(tokens) - 1)))

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(ROOT, len(self) - 1))

    def children_of(self, node: int) -> tuple[int, ...]:
        """Children of a node or of the root, in the order they were drawn."""
        if self.is_chain:
            return (node + 1,) if node + 1 < len(self.tokens) else ()
        return self.children[node]

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Children of each node and of the root, in the order they were drawn."""
        found: dict[int, list[int]] = {node: [] for node in range(ROOT, len(self))}
        for node, parent in enumerate(self.parents):
            found[parent].append(node)
        return {node: tuple(nodes) for node, nodes in found.items()}

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Distance of each node from the root, 1 for its children."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from below the root down to `node`; () for the root."""
        if self.is_chain:
            return tuple(range(node + 1))
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return tuple(reversed(path))

    def path_tokens(self, node: int) -> tuple[int, ...]:
        """The drafted tokens on the path down to `node`, its own included."""
        if self.is_chain:
            return self.tokens[: node + 1]
        return tuple(self.tokens[i] for i in self.path(node))


class Drawn(Enum):
    """How a proposal's tokens were chosen; a verifier's proof depends on it."""

    SAMPLED = "sampled"  # each node drawn from its q by fresh noise, or by the target's races
    WITHOUT_REPLACEMENT = "without replacement"  # siblings drawn from q, one after another
    GREEDY_PLUS_ONE = "greedy plus one"  # q's likeliest tokens, then one drawn from q without them
    DETERMINISTIC = "deterministic"  # a function of the prefix alone: q is a point mass


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a drafter hands to the round: a tree, and for each node the law its token came from.

    `q[i]` is the law [V] that node i's token was really sampled from, or None for a point mass. Of
    siblings drawn one after another that is the law given those before it: drawn without
    replacement, q without their tokens, renormalised.
    """

    tree: TokenTree = TokenTree()
    q: tuple[Any, ...] = ()
    drawn: Drawn = Drawn.DETERMINISTIC

    def __post_init__(self) -> None:
        if len(self.q) != len(self.tree):
            raise ValueError(f"{len(self.tree)} drafted tokens but {len(self.q)} draft laws")

    @classmethod
    def point_mass(cls, tokens: Sequence[int]) -> Proposal:
        """A chain guessed by a function of the prefix alone."""
        return cls(tree=TokenTree.chain(tokens), q=(None,) * len(tokens))

    def __len__(self) -> int:
        return len(self.tree)

    def first(self, count: int) -> Proposal:
        """The first `count` tokens of a chain."""
        tree = TokenTree.chain(self.tree.tokens[:count])
        return Proposal(tree=tree, q=self.q[:count], drawn=self.drawn)


NOTHING = Proposal()
"""The empty proposal: a round with it is a step of plain decoding."""
