"""Greedy plus one: the likeliest children are guesses for a draw from p; one more child was drawn.

Of n children, n − 1 are the likeliest tokens under q, and x̃ was drawn from q̃: q without them,
renormalised. x̃ is judged first, by speculative sampling:

    accept x̃ with probability min(1, p(x̃) / q̃(x̃)), and go on below it
    else draw the token from [p − q̃]+, normalised; where it is one of the n − 1, go on below that

q̃ gives the n − 1 no mass, so that [p − q̃]+ keeps all that p gives them: a child is taken with
probability P(likeliest) + Σ_rest min(p, q̃), which no verifier of such draws can exceed. Where q has
no mass outside the likeliest there is no x̃, and the token is drawn from p.

The proof asks only that x̃, the last child, came from its q given the others, however those came
about. So every kind of tree is judged: all children but the last are guesses for the draw.
(Hu et al. 2025, arXiv 2502.18779.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.numerics.acceptance import acceptance, mass, residual
from forerun.numerics.randomness import Draws, Purpose
from forerun.numerics.token_tree import ROOT, Drawn, Proposal
from forerun.verifiers.base import Verdict


class GreedyPlusOneVerifier:
    name = "greedy_plus_one"
    races = False

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        return True

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict:
        tree, q = proposal.tree, proposal.q
        judged: list[float | None] = [None] * len(tree)
        path: list[int] = []
        node = ROOT
        while True:
            law, children = p[node + 1], tree.children_of(node)
            drawn = children[-1] if children and q[children[-1]] is not None else None
            likeliest = children if drawn is None else children[:-1]
            if drawn is not None:
                judged[drawn] = a = acceptance(law, q[drawn], tree.tokens[drawn])
                if draws.accept(a, (drawn, Purpose.ACCEPT)):
                    path.append(drawn)
                    node = drawn
                    continue
                law = residual(law, q[drawn], tree.tokens[drawn])
            token = draws.draw(law, (node, Purpose.NEXT))
            for child in likeliest:
                judged[child] = mass(law, tree.tokens[child])
            match = next((c for c in likeliest if tree.tokens[c] == token), None)
            if match is None:
                return Verdict(
                    path=tuple(path),
                    token=token,
                    kind="residual" if children else "bonus",
                    law=law,
                    acceptance=tuple(judged),
                )
            path.append(match)
            node = match
