/**
 * Token-level verification: keep with min(1, p/q), correct from [p − q]+, add a bonus.
 * (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.)
 */

import { acceptance, residual } from "./acceptance";
import type { Draws } from "./draws";
import type { Law } from "./law";
import { at, type Proposal, type Verdict } from "./round";

export function rejection(proposal: Proposal, p: readonly Law[], draws: Draws): Verdict {
  const judged: (number | null)[] = proposal.tokens.map(() => null);
  const path: number[] = [];
  for (const [i, x] of proposal.tokens.entries()) {
    const q = at(proposal.q, i);
    const a = acceptance(at(p, i), q, x);
    judged[i] = a;
    if (!draws.accept(a, i)) {
      const law = residual(at(p, i), q, x);
      return { path, token: draws.draw(law), kind: "residual", law, acceptance: judged };
    }
    path.push(i);
  }
  const law = at(p, proposal.tokens.length);
  return { path, token: draws.draw(law), kind: "bonus", law, acceptance: judged };
}
