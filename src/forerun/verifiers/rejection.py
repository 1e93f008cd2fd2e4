"""Token-level speculative sampling: accept with min(1, p/q), correct from [p − q]+, add a bonus.

For each drafted token in turn: keep it with probability min(1, p(x)/q(x)); at the first rejection
draw the correction from the residual and stop; if all were kept, draw one more from p.
Σ over both ways to emit x: min(q, p) + β·[p − q]+/β = p. (Leviathan et al. 2023, algorithm 1;
Chen et al. 2023, algorithm 2.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forerun.numerics.acceptance import acceptance, residual
from forerun.numerics.randomness import Draws, Purpose
from forerun.numerics.token_tree import ROOT, Drawn, Proposal
from forerun.verifiers.base import Verdict


class RejectionVerifier:
    name = "rejection"
    races = False

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        return chain and drawn is not Drawn.WITHOUT_REPLACEMENT

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict:
        judged: list[float | None] = [None] * len(proposal)
        for i, (x, q) in enumerate(zip(proposal.tree.tokens, proposal.q)):
            judged[i] = a = acceptance(p[i], q, x)
            if not draws.accept(a, (i, Purpose.ACCEPT)):
                law = residual(p[i], q, x)
                token = draws.draw(law, (i - 1, Purpose.NEXT))
                path = tuple(range(i))
                return Verdict(
                    path=path, token=token, kind="residual", law=law, acceptance=tuple(judged)
                )
        last = len(proposal) - 1 if len(proposal) else ROOT
        token = draws.draw(p[-1], (last, Purpose.NEXT))
        path = tuple(range(len(proposal)))
        return Verdict(path=path, token=token, kind="bonus", law=p[-1], acceptance=tuple(judged))
