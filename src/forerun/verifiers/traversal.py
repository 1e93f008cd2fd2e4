"""Traversal verification: block verification of a tree, leaf by leaf, from the first path on.

Every node v has a law M(v) and an acceptance α(v) of the whole path down to it; at first M = p and

    α(root) = 1        α(c) = min(α(v)·M(v)(c) / q(c), 1)    for a child c of v, drawn from q

Take the first leaf in the order drawn. Its path is accepted whole with probability α(leaf); the
next token is then drawn from M(leaf). Otherwise the leaf is deleted, and of its parent v

    S = Σ [α·M − q]+       M ← [α·M − q]+ / S       α ← S / (S + 1 − α)

with the old α on the right, q being the law that the leaf was drawn from; α(root) stays 1, and
S = 0 below the root makes α 0. What stands below v is judged anew with these, and v itself is a
leaf once all its children are gone; at the root the next token is drawn from what M is then. On a
chain this is block verification; on a tree its paths are on average at least as long as those of
`recursive`.
(Weng et al. 2025, arXiv 2505.12398.)

As with `recursive`, all that is asked of the next child is that its q be the law that it was drawn
from given the children before it, so that every kind of tree is judged. Nothing below a node of
α = 0 is looked at: it cannot be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.numerics.acceptance import acceptance, carried, excess, residual
from forerun.numerics.randomness import Draws, Purpose
from forerun.numerics.token_tree import ROOT, Drawn, Proposal
from forerun.verifiers.base import Verdict


class TraversalVerifier:
    name = "traversal"
    races = False

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        return True

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict:
        walk = _Walk(proposal, p, draws)
        leaf = walk.leaf(ROOT, 1.0)
        node = ROOT if leaf is None else leaf
        law = walk.left[node] if node in walk.left else p[node + 1]
        return Verdict(
            path=proposal.tree.path(node),
            token=draws.draw(law, (node, Purpose.NEXT)),
            kind="residual" if proposal.tree.children_of(node) else "bonus",
            law=law,
            acceptance=tuple(walk.judged),
        )


class _Walk:
    """One walk through a tree, leaves first."""

    def __init__(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> None:
        self._tree, self._q, self._p, self._draws = proposal.tree, proposal.q, p, draws
        self.judged: list[float | None] = [None] * len(proposal)
        self.left: dict[int, Any] = {}  # M of nodes whose children were deleted

    def leaf(self, node: int, alpha: float) -> int | None:
        """The accepted leaf at or below `node`; None where all of it was deleted."""
        for child in self._tree.children_of(node):
            token, q = self._tree.tokens[child], self._q[child]
            law = self.left[node] if node in self.left else self._p[node + 1]
            below = self.judged[child] = acceptance(law, q, token, alpha)
            found = self.leaf(child, below) if below > 0 else None
            if found is not None:
                return found
            left = excess(law, q, token, alpha)
            self.left[node] = residual(law, q, token, alpha)
            alpha = 1.0 if node == ROOT else carried(left, alpha)
            if alpha == 0:
                break
        if node == ROOT:
            return None
        self.judged[node] = alpha
        return node if self._draws.accept(alpha, (node, Purpose.ACCEPT)) else None
