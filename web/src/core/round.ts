/**
 * What a round knows: the drafted tokens as a tree, the laws they came from, and the verdict.
 *
 *     node      0   1   2   3            root ── 0 ── 1 ── 2
 *     parents  -1   0   1   0                    └── 3
 *
 * The root (−1) is the last token of the prefix. Parents come before children, siblings stand in the
 * order they were drawn. `p[0]` is the target's law after the prefix, `p[i + 1]` its law after node i.
 */

import type { DraftLaw } from "./acceptance";
import type { Law } from "./law";

export const ROOT = -1;

export interface Proposal {
  readonly tokens: readonly number[];
  readonly parents: readonly number[];
  /** The law each node's token was really drawn from; null for a point mass. */
  readonly q: readonly DraftLaw[];
}

export interface Verdict {
  /** Accepted nodes, from below the root down. */
  readonly path: readonly number[];
  /** The target's next token after them. */
  readonly token: number;
  readonly kind: "residual" | "bonus";
  /** The law that `token` was drawn from. */
  readonly law: Law;
  /** Probability of acceptance by node; null where a node was not judged. */
  readonly acceptance: readonly (number | null)[];
}

export function chain(tokens: readonly number[], q: readonly DraftLaw[]): Proposal {
  return { tokens, parents: tokens.map((_, i) => i - 1), q };
}

/** Children of a node or of the root, in the order they were drawn. */
export function childrenOf(proposal: Proposal, node: number): number[] {
  return proposal.parents.flatMap((parent, child) => (parent === node ? [child] : []));
}

/** The tokens a round emits: the accepted ones and the next. */
export function emitted(proposal: Proposal, verdict: Verdict): number[] {
  return [...verdict.path.map((node) => at(proposal.tokens, node)), verdict.token];
}

/** An element that is there by construction. */
export function at<T>(items: readonly T[], index: number): T {
  const found = items[index];
  if (found === undefined) throw new RangeError(`no element ${index} of ${items.length}`);
  return found;
}
