/**
 * Coupling: the same luck twice. The target's token at a position is the winner of a race,
 * argmin over x of E_x / p(x), with exponentials E that belong to the position; a drafter that races
 * with the same E and its own q often has the same winner. A draft is kept when it is that token, so
 * the text is a function of the luck and of p alone. (Daliri et al. 2024, arXiv 2408.07978.)
 */

import type { Draws } from "./draws";
import { mass, type Law } from "./law";
import { at, childrenOf, ROOT, type Proposal, type Verdict } from "./round";

/** Arrival times E_x / p(x); Infinity where p is 0. */
export function arrivals(law: Law, exponentials: readonly number[]): number[] {
  return law.map((m, x) => (m > 0 ? at(exponentials, x) / m : Infinity));
}

/** The winner: an exact draw from `law`, where E are independent exponentials. */
export function race(law: Law, exponentials: readonly number[]): number {
  const times = arrivals(law, exponentials);
  let winner = -1;
  for (const [x, time] of times.entries()) {
    if (time < (times[winner] ?? Infinity)) winner = x;
  }
  if (winner < 0) throw new RangeError("a law without mass has no winner");
  return winner;
}

/**
 * Probability that both races have the same winner: Σ_x 1 / Σ_y max(p_y/p_x, q_y/q_x).
 * At least (1 − TV)/(1 + TV), at most 1 − TV.
 */
export function agreement(p: Law, q: Law): number {
  return p.reduce((sum, px, x) => {
    const qx = mass(q, x);
    if (!(px > 0 && qx > 0)) return sum;
    return sum + 1 / p.reduce((s, py, y) => s + Math.max(py / px, mass(q, y) / qx), 0);
  }, 0);
}

/** Walk any tree of drafts from the root by the target's own tokens. */
export function coupled(proposal: Proposal, p: readonly Law[], draws: Draws): Verdict {
  const judged: (number | null)[] = proposal.tokens.map(() => null);
  const path: number[] = [];
  const tokens: number[] = [];
  for (;;) {
    const node = path.at(-1) ?? ROOT;
    const law = at(p, node + 1);
    const token = draws.race(law, tokens, "target");
    const children = childrenOf(proposal, node);
    for (const child of children) judged[child] = mass(law, at(proposal.tokens, child));
    const match = children.find((child) => at(proposal.tokens, child) === token);
    if (match === undefined) {
      const kind = children.length > 0 ? "residual" : "bonus";
      return { path, token, kind, law, acceptance: judged };
    }
    path.push(match);
    tokens.push(token);
  }
}
