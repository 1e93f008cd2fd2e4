/**
 * A toy language for the law of whole sentences: two words and the end, laws that lean on the word
 * before. Exact, by running the rule under every outcome of its randomness.
 */

import { block } from "../../../core/block";
import { plainLaw, sequenceLaw, type NextLaw, type Verifier } from "../../../core/enumerate";
import type { Law } from "../../../core/law";
import { rejection } from "../../../core/rejection";
import { at } from "../../../core/round";

export const RULES = ["rejection", "block", "wrong"] as const;
export type Rule = (typeof RULES)[number];

export const END = 2;
const LIMITS = { end: END, maxTokens: 3 };

/** Word by word, but a rejected word is drawn again from p: the mistake of chapter 5. */
const wrong: Verifier = (proposal, p, draws) => {
  const verdict = rejection(proposal, p, draws);
  if (verdict.kind === "bonus") return verdict;
  const law = at(p, verdict.path.length);
  return { ...verdict, law, token: draws.draw(law) };
};

const VERIFIERS: Readonly<Record<Rule, Verifier>> = { rejection, block, wrong };

/** The two-word law `law`, leaning by `lean` towards the word before, with the end at `end`. */
export function after(law: Law, lean: number, end: number): NextLaw {
  return (prefix) => {
    const before = prefix.at(-1);
    const stop = before === undefined ? end / 3 : end;
    const words = law.map((m, x) => (before === undefined ? m : (1 - lean) * m + (x === before ? lean : 0)));
    return [...words.map((m) => m * (1 - stop)), stop];
  };
}

export interface Sentence {
  readonly tokens: readonly number[];
  readonly wanted: number;
  readonly found: number;
}

/** Every sentence with its probability: the target's alone, and by the rule. */
export function sentences(p: Law, q: Law, rule: Rule, gamma: number): Sentence[] {
  const [target, draft] = [after(p, 0.4, 0.3), after(q, 0.15, 0.2)];
  const wanted = plainLaw(target, LIMITS);
  const found = sequenceLaw(VERIFIERS[rule], target, draft, gamma, LIMITS);
  return [...new Set([...wanted.keys(), ...found.keys()])]
    .sort()
    .map((text) => ({
      tokens: text.split(",").map(Number),
      wanted: wanted.get(text) ?? 0,
      found: found.get(text) ?? 0,
    }));
}
