/** Three-word laws, in the page's address, and where each correction leads. */

import { kept, leak, residual, totalVariation } from "../../../core/acceptance";
import { mass, type Law } from "../../../core/law";
import { ruleLaw } from "../../../core/rules";
import { isLaw, page } from "../../../state/page.svelte";

export const p3 = page.param("p3", [0.5, 0.3, 0.2], isLaw);
export const q3 = page.param("q3", [0.2, 0.2, 0.6], isLaw);

export interface Poured {
  /** Kept of every word: min(q, p). */
  readonly kept: Law;
  /** What is missing of every word: [p − q]+. */
  readonly missing: Law;
  /** The law a rejected word is drawn from. */
  readonly from: Law;
  /** What that pours onto every word: β times the law. */
  readonly poured: Law;
  /** The law that comes of it. */
  readonly law: Law;
  /** How far each bar misses its tick. */
  readonly miss: Law;
  readonly beta: number;
}

export function pour(p: Law, q: Law, wrong: boolean): Poured {
  const beta = totalVariation(p, q);
  const from = wrong ? p : residual(p, q);
  const law = ruleLaw(wrong ? "from-target" : "right", p, q);
  return {
    kept: kept(p, q),
    missing: leak(p, q),
    from,
    poured: from.map((m) => beta * m),
    law,
    miss: law.map((m, x) => m - mass(p, x)),
    beta,
  };
}
