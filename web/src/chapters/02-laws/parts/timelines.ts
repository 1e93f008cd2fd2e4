/**
 * Five timelines of the target and five of the draft, as fifths of a law; what a reader does to the
 * draft's by hand, and what the rule does to one at a time.
 */

import { acceptance, residual } from "../../../core/acceptance";
import { inverseCdf, mass, type Law } from "../../../core/law";
import { uniformAt } from "../../../core/random";

export const LOVE = 0;
export const HATE = 1;

/** love ×3, hate ×2 */
export const TARGET: readonly number[] = [LOVE, LOVE, LOVE, HATE, HATE];
/** love ×1, hate ×4 */
export const DRAFT: readonly number[] = [LOVE, HATE, HATE, HATE, HATE];

export const P: Law = [3 / 5, 2 / 5];
export const Q: Law = [1 / 5, 4 / 5];

/** The words a timeline has had, the present one last. */
export type Timeline = readonly number[];

export const START: readonly Timeline[] = DRAFT.map((word) => [word]);

/** Erases one timeline's word and draws another from the target's law; the count of draws so far keys it. */
export function erase(timelines: readonly Timeline[], index: number, seed: number): Timeline[] {
  const drawn = timelines.reduce((sum, words) => sum + words.length - 1, 0);
  const word = inverseCdf(P, uniformAt(seed, "by hand", drawn));
  return timelines.map((words, i) => (i === index ? [...words, word] : words));
}

export interface Score {
  readonly kept: number;
  readonly erased: number;
  readonly loves: number;
  readonly done: boolean;
}

export function score(timelines: readonly Timeline[]): Score {
  const loves = timelines.filter((words) => words.at(-1) === LOVE).length;
  return {
    kept: timelines.filter((words) => words.length === 1).length,
    erased: timelines.reduce((sum, words) => sum + words.length - 1, 0),
    loves,
    done: loves === TARGET.filter((word) => word === LOVE).length,
  };
}

/** One timeline under the rule, which sees nothing but this one. */
export interface Judged {
  readonly drafted: number;
  /** The chance of being kept. */
  readonly chance: number;
  readonly coin: number;
  readonly kept: boolean;
  readonly word: number;
}

export function judged(p: Law, q: Law, seed: number, index: number): Judged {
  const uniform = (i: number): number => uniformAt(seed, "by rule", 3 * index + i);
  const drafted = inverseCdf(q, uniform(0));
  const chance = acceptance(p, q, drafted);
  const coin = uniform(1);
  const kept = coin < chance;
  return { drafted, chance, coin, kept, word: kept ? drafted : inverseCdf(residual(p, q), uniform(2)) };
}

/** Of `n` timelines: how many of each word, and how many were kept. */
export function counted(p: Law, q: Law, seed: number, n: number): { counts: number[]; kept: number } {
  const counts = p.map(() => 0);
  let kept = 0;
  for (let i = 0; i < n; i++) {
    const one = judged(p, q, seed, i);
    counts[one.word] = mass(counts, one.word) + 1;
    kept += Number(one.kept);
  }
  return { counts, kept };
}
