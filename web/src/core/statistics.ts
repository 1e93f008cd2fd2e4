/**
 * Is a tally the one a law would give? Pearson's chi-square, and a band that holds all bars at once.
 */

import type { Law } from "./law";
import { at } from "./round";
import { betaI, gammaQ } from "./special";

export interface ChiSquare {
  readonly statistic: number;
  /** Degrees of freedom: tokens the law can give, less 1. */
  readonly freedom: number;
  /** Probability of a statistic this large or larger, were the law right. */
  readonly p: number;
  /** Smallest expected count; below about 5 the probability is a rough one. */
  readonly smallest: number;
}

/** Pearson's test of `counts` against `law`. A token that the law cannot give decides alone. */
export function chiSquare(counts: readonly number[], law: Law): ChiSquare {
  const n = counts.reduce((sum, count) => sum + count, 0);
  let [statistic, possible, smallest] = [0, 0, Infinity];
  for (const [x, count] of counts.entries()) {
    const expected = n * (law[x] ?? 0);
    if (expected > 0) {
      statistic += (count - expected) ** 2 / expected;
      possible += 1;
      smallest = Math.min(smallest, expected);
    } else if (count > 0) {
      statistic = Infinity;
    }
  }
  const freedom = Math.max(possible - 1, 0);
  const p = freedom > 0 ? gammaQ(freedom / 2, statistic / 2) : Number(statistic < 1e-9 * (n + 1));
  return { statistic, freedom, p, smallest: n > 0 ? smallest : 0 };
}

/** Pr(at most k of n), each with probability p. */
export function binomialCdf(k: number, n: number, p: number): number {
  if (k < 0) return 0;
  if (k >= n) return 1;
  return betaI(1 - p, n - k, k + 1);
}

/** The smallest k with Pr(at most k) ≥ `level`. */
export function binomialQuantile(level: number, n: number, p: number): number {
  // it is looked for near the mean first
  const reach = 10 + 6 * Math.sqrt(n * p * (1 - p));
  let low = Math.max(0, Math.floor(n * p - reach));
  let high = Math.min(n, Math.ceil(n * p + reach));
  if (low > 0 && binomialCdf(low - 1, n, p) >= level) low = 0;
  if (high < n && binomialCdf(high, n, p) < level) high = n;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (binomialCdf(middle, n, p) >= level) high = middle;
    else low = middle + 1;
  }
  return low;
}

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/**
 * For every token the share of n draws within which a right rule stays, all tokens at once, with at
 * least `confidence`: exact binomial quantiles, the error shared alike (Bonferroni).
 */
export function band(law: Law, n: number, confidence = 0.99): Interval[] {
  const error = (1 - confidence) / (2 * law.length);
  return law.map((p) => {
    if (n === 0) return { low: 0, high: 1 };
    return {
      low: binomialQuantile(error, n, p) / n,
      high: binomialQuantile(1 - error, n, p) / n,
    };
  });
}

/** Whether every share lies in its interval. */
export function within(counts: readonly number[], intervals: readonly Interval[]): boolean {
  const n = counts.reduce((sum, count) => sum + count, 0);
  if (n === 0) return true;
  return counts.every((count, x) => {
    const { low, high } = at(intervals, x);
    return count >= low * n - 1e-6 && count <= high * n + 1e-6;
  });
}
