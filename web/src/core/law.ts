/**
 * A law: the probability of every token of a small vocabulary. Pure functions; no randomness.
 *
 * Letters as in the papers: p is the target's law, q the draft's, both of length V.
 */

export type Law = readonly number[];

/** Probability of `token`; 0 for ids outside of the vocabulary. */
export function mass(law: Law, token: number): number {
  return law[token] ?? 0;
}

export function total(law: Law): number {
  return law.reduce((sum, m) => sum + m, 0);
}

/** Weights scaled to the sum 1. RangeError where nothing can be scaled. */
export function normalised(weights: Law): Law {
  const sum = total(weights);
  if (!(sum > 0) || !Number.isFinite(sum) || weights.some((w) => !(w >= 0))) {
    throw new RangeError(`weights must be at least 0 with a sum above 0, not ${weights.join(", ")}`);
  }
  return weights.map((w) => w / sum);
}

/** All mass on one token. */
export function pointMass(token: number, size: number): Law {
  return Array.from({ length: size }, (_, x) => (x === token ? 1 : 0));
}

/** The likeliest token; of equals the lower id. */
export function argmax(law: Law): number {
  return law.reduce((best, m, x) => (m > mass(law, best) ? x : best), 0);
}

/**
 * The first token at which the running sum exceeds u times the total; never one of mass 0.
 * `u` lies strictly between 0 and 1.
 */
export function inverseCdf(law: Law, u: number): number {
  const goal = u * total(law);
  let sum = 0;
  let last = -1;
  for (const [x, m] of law.entries()) {
    if (m > 0) {
      sum += m;
      last = x;
      if (sum > goal) return x;
    }
  }
  if (last < 0) throw new RangeError("a law without mass has no token to draw");
  return last;
}

/**
 * The law after one token's probability was dragged to `value`: the others keep their proportions,
 * or share alike where they had nothing.
 */
export function withMass(law: Law, token: number, value: number): Law {
  const wanted = Math.min(Math.max(value, 0), 1);
  const rest = total(law) - mass(law, token);
  const others = law.length - 1;
  if (others < 1) return law;
  return law.map((m, x) => {
    if (x === token) return wanted;
    return rest > 0 ? (m / rest) * (1 - wanted) : (1 - wanted) / others;
  });
}

/** The law at a temperature: p^(1/T), normalised; T = 0 is the point mass on the likeliest. */
export function atTemperature(law: Law, temperature: number): Law {
  if (temperature === 0) return pointMass(argmax(law), law.length);
  const top = Math.max(...law);
  return normalised(law.map((m) => (m / top) ** (1 / temperature)));
}
