"""Coupled verification: the target chooses each token by its own keyed noise; drafts only guess.

At each position the target's token is argmin over x of E_x / p(x), with exponentials E keyed by the
absolute position. A drafted token is accepted when it is that token. So the text is the same, token
for token, with any drafter, any number of drafts, in any batch, or with none; and since E are
independent across positions, its law is Π p. Greedy is the case T = 0, where p is a point mass.
(Daliri et al. 2024, arXiv 2408.07978; at T = 0, Stern et al. 2018.)

Works for every drafter and any tree: walk from the root by the target's own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.numerics.acceptance import mass
from forerun.numerics.randomness import Draws, Purpose
from forerun.numerics.token_tree import ROOT, Drawn, Proposal
from forerun.verifiers.base import Verdict


class CoupledVerifier:
    name = "coupled"
    races = True

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        return True

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict:
        tree = proposal.tree
        judged: list[float | None] = [None] * len(tree)
        path: list[int] = []
        node, emitted = ROOT, tuple[int, ...]()
        while True:
            law = p[node + 1]
            token = draws.race(law, emitted, Purpose.NEXT)
            children = tree.children_of(node)
            for child in children:
                judged[child] = mass(law, tree.tokens[child])  # without knowing the race
            match = next((c for c in children if tree.tokens[c] == token), None)
            if match is None:
                return Verdict(
                    path=tuple(path),
                    token=token,
                    kind="residual" if children else "bonus",
                    law=law,
                    acceptance=tuple(judged),
                )
            node, emitted = match, (*emitted, token)
            path.append(match)
