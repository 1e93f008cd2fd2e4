"""Block verification: the whole drafted block is judged at once, and never accepts fewer tokens.

With x_1..x_γ drafted, p_i and q_i the laws at position i, P_0 = 1:

    P_i = min(P_{i−1} · p_i(x_i) / q_i(x_i), 1)
    Z_i = Σ_x [P_i · p_{i+1}(x) − q_{i+1}(x)]+          for i < γ
    h_i = Z_i / (Z_i + 1 − P_i)  for i < γ,             h_γ = P_γ

Toss an independent coin h_i for every i; τ is the LARGEST i whose coin passes (0 if none). Then
draw the next token from [P_τ · p_{τ+1} − q_{τ+1}]+, normalised, or, when τ = γ, the bonus from
p_{γ+1}. (Sun et al. 2024, arXiv 2403.10444, algorithm 2.) P is kept as its logarithm. A point-mass
token enters with its one-hot q; Z_i = 0 with P_i = 1 gives h_i = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forerun.numerics.acceptance import carried, draft_mass, excess, mass, residual
from forerun.numerics.randomness import Draws, Purpose
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.verifiers.base import Verdict


class BlockVerifier:
    name = "block"
    races = False

    def judges(self, drawn: Drawn, chain: bool) -> bool:
        return chain and drawn is not Drawn.WITHOUT_REPLACEMENT

    def verify(self, proposal: Proposal, p: Sequence[Any], draws: Draws) -> Verdict:
        tokens, q, count = proposal.tree.tokens, proposal.q, len(proposal)
        log_p = 0.0
        accepted, kept = 0, 1.0  # τ and P_τ
        judged: list[float | None] = []
        for i, x in enumerate(tokens, start=1):
            log_p = min(log_p + _log_ratio(mass(p[i - 1], x), draft_mass(q[i - 1], x)), 0.0)
            P = math.exp(log_p)
            h = P if i == count else carried(excess(p[i], q[i], tokens[i], P), P)
            judged.append(h)
            if draws.accept(h, (i - 1, Purpose.ACCEPT)):
                accepted, kept = i, P
        whole = accepted == count
        law = p[-1] if whole else residual(p[accepted], q[accepted], tokens[accepted], kept)
        return Verdict(
            path=tuple(range(accepted)),
            token=draws.draw(law, (accepted - 1, Purpose.NEXT)),
            kind="bonus" if whole else "residual",
            law=law,
            acceptance=tuple(judged),
        )


def _log_ratio(target: float, draft: float) -> float:
    return math.log(target) - math.log(draft) if target > 0 and draft > 0 else -math.inf
