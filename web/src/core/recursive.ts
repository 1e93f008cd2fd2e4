/**
 * A tree of drafts whose siblings were drawn one after another without replacement: each is judged
 * like a single draft, against what its rejected elder siblings have left.
 *
 *     keep x with min(1, p(x)/q(x));   else  p ← [p − q]+ / β,   q ← q without x, normalised
 *
 * (Recursive rejection sampling: Jeon et al. 2024, arXiv 2402.14160; Yang et al. 2024.)
 */

import { acceptance, residual } from "./acceptance";
import type { Draws } from "./draws";
import { normalised, total, type Law } from "./law";
import { at, childrenOf, ROOT, type Proposal, type Verdict } from "./round";

/** q without `token`, normalised; null where nothing is left to draw. */
export function without(q: Law, token: number): Law | null {
  const left = q.map((m, x) => (x === token ? 0 : m));
  return total(left) > 0 ? normalised(left) : null;
}

/**
 * `proposal.q[i]` is the law of node i's whole family: what the eldest sibling was drawn from.
 */
export function recursive(proposal: Proposal, p: readonly Law[], draws: Draws): Verdict {
  const judged: (number | null)[] = proposal.tokens.map(() => null);
  const path: number[] = [];
  for (;;) {
    const node = path.at(-1) ?? ROOT;
    const children = childrenOf(proposal, node);
    let law = at(p, node + 1);
    let q = children.length > 0 ? at(proposal.q, at(children, 0)) : null;
    let found = -1;
    for (const child of children) {
      const x = at(proposal.tokens, child);
      const a = acceptance(law, q, x);
      judged[child] = a;
      if (draws.accept(a, child)) {
        found = child;
        break;
      }
      law = residual(law, q, x);
      q = q === null ? null : without(q, x);
    }
    if (found < 0) {
      const kind = children.length > 0 ? "residual" : "bonus";
      return { path, token: draws.draw(law), kind, law, acceptance: judged };
    }
    path.push(found);
  }
}
