/**
 * Acceptance, residual and total variation of a target law p and a draft law q.
 *
 *     keep a token x drawn from q with probability    min(1, p(x) / q(x))
 *     after a rejection, draw the correction from     [p − q]+ / β
 *     probability of a rejection                      β = Σ [p − q]+ = TV(p, q)
 *
 * A draft law of null is a point mass on the drafted token. (Leviathan et al. 2023, section 2.3;
 * Chen et al. 2023, theorem 1.) Knows with what probability, never whether.
 */

import { mass, type Law } from "./law";

export type DraftLaw = Law | null;

/** [v]+ */
export function positive(v: number): number {
  return Math.max(v, 0);
}

/** Probability with which `token` was drafted; 1 for a point mass. */
export function draftMass(q: DraftLaw, token: number): number {
  return q === null ? 1 : mass(q, token);
}

/** min(1, p/q) of a token drawn from q; 0 where p is 0, whatever q is. */
export function acceptance(p: Law, q: DraftLaw, token: number): number {
  const target = mass(p, token);
  const draft = draftMass(q, token);
  if (target < draft) return target / draft;
  return target > 0 ? 1 : 0;
}

/** min(q, p) for every token: the probability that it is drafted and kept. */
export function kept(p: Law, q: Law): Law {
  return p.map((m, x) => Math.min(m, mass(q, x)));
}

/** [scale·p − q]+ for every token: what the draft left out. `drafted` is the token where q is null. */
export function leak(p: Law, q: DraftLaw, drafted = -1, scale = 1): Law {
  return p.map((m, x) => {
    const draft = q === null ? (x === drafted ? 1 : 0) : mass(q, x);
    return positive(scale * m - draft);
  });
}

/** Σ [scale·p − q]+ */
export function excess(p: Law, q: DraftLaw, drafted = -1, scale = 1): number {
  return leak(p, q, drafted, scale).reduce((sum, m) => sum + m, 0);
}

/**
 * [scale·p − q]+ normalised: the law of the correction after `drafted` was rejected. Where rounding
 * leaves nothing, the law is p.
 */
export function residual(p: Law, q: DraftLaw, drafted = -1, scale = 1): Law {
  const left = leak(p, q, drafted, scale);
  const sum = left.reduce((s, m) => s + m, 0);
  return sum > 0 ? left.map((m) => m / sum) : p;
}

/** ½ Σ |p − q| */
export function totalVariation(p: Law, q: Law): number {
  const length = Math.max(p.length, q.length);
  let sum = 0;
  for (let x = 0; x < length; x++) sum += Math.abs(mass(p, x) - mass(q, x));
  return sum / 2;
}
