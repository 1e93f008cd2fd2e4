/** Where each block of probability stands, before and after it was let go: areas that only move. */

import { kept, leak, residual, totalVariation } from "../../../core/acceptance";
import { mass, type Law } from "../../../core/law";

/** A part of what word `from` was said too often, that becomes word `to`. */
export interface Flow {
  readonly from: number;
  readonly to: number;
  /** Its probability, and so its height. */
  readonly amount: number;
  /** Probability below it in its old column, and in its new one. */
  readonly low: number;
  readonly newLow: number;
}

export function flows(p: Law, q: Law): Flow[] {
  const law = residual(p, q);
  const over = leak(q, p);
  if (totalVariation(p, q) < 1e-12) return [];
  const top = [...kept(p, q)];
  const newTop = [...kept(p, q)];
  return over.flatMap((rejected, from) =>
    law.flatMap((share, to) => {
      const amount = rejected * share;
      if (amount < 1e-12) return [];
      const [low, newLow] = [mass(top, from), mass(newTop, to)];
      top[from] = low + amount;
      newTop[to] = newLow + amount;
      return [{ from, to, amount, low, newLow }];
    }),
  );
}
