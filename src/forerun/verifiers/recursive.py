"""Recursive rejection: of a node's children one after another, each against what those before left.

    P ← p
    for each child c, in the order drawn, from Q:
        accept c with probability min(1, P(c) / Q(c)), and go on below it
        else P ← [P − Q]+, normalised
    none accepted: the next token is drawn from P

Each step is speculative sampling with target P, so that the token has the law p whichever child it
is. All that the proof asks is that Q be the law that c was drawn from, given the children before:
q for the first; without replacement, q without the tokens before it, renormalised; a point mass for
a child that is a function of the prefix. So it judges every kind of tree, and looks at no child
that its parent's acceptance does not lead to. (Yang et al. 2024, multi-candidate speculative
decoding, arXiv 2401.06706; Jeon et al. 2024, recursive speculative decoding, arXiv 2402.14160.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.numerics.acceptance import acceptance, residual
from forerun.numerics.randomness import Draws, Purpose
from forerun.numerics.token_tree import ROOT, Drawn, Proposal
from forerun.verifiers.base import Verdict


class RecursiveVerifier:
    name = "recursive"
    races = False

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        return True

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict:
        tree, q = proposal.tree, proposal.q
        judged: list[float | None] = [None] * len(tree)
        path: list[int] = []
        node = ROOT
        while True:
            law, children, accepted = p[node + 1], tree.children_of(node), None
            for child in children:
                token = tree.tokens[child]
                judged[child] = a = acceptance(law, q[child], token)
                if draws.accept(a, (child, Purpose.ACCEPT)):
                    accepted = child
                    break
                law = residual(law, q[child], token)
            if accepted is None:
                return Verdict(
                    path=tuple(path),
                    token=draws.draw(law, (node, Purpose.NEXT)),
                    kind="residual" if children else "bonus",
                    law=law,
                    acceptance=tuple(judged),
                )
            path.append(accepted)
            node = accepted
