/**
 * Recursive rejection: of a node's children one after another, each against what those before it left.
 *
 *     keep x with min(1, p(x)/q(x));   else  p ← [p − q]+ / β
 *
 * All that is asked of q is that it be the law that the child was drawn from, given those before it:
 * without replacement that is q without them, normalised. (Yang et al. 2024, arXiv 2401.06706; Jeon et
 * al. 2024, arXiv 2402.14160.)
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

export function recursive(proposal: Proposal, p: readonly Law[], draws: Draws): Verdict {
  const judged: (number | null)[] = proposal.tokens.map(() => null);
  const path: number[] = [];
  for (;;) {
    const node = path.at(-1) ?? ROOT;
    const children = childrenOf(proposal, node);
    let law = at(p, node + 1);
    let found = -1;
    for (const child of children) {
      const [x, q] = [at(proposal.tokens, child), at(proposal.q, child)];
      const a = acceptance(law, q, x);
      judged[child] = a;
      if (draws.accept(a, child)) {
        found = child;
        break;
      }
      law = residual(law, q, x);
    }
    if (found < 0) {
      const kind = children.length > 0 ? "residual" : "bonus";
      return { path, token: draws.draw(law), kind, law, acceptance: judged };
    }
    path.push(found);
  }
}
