/**
 * The rule for one token, and the classic mistakes, each with its exact law.
 *
 *     right        draw x from q; keep with min(1, p/q); else draw from [p − q]+ / β
 *     from-target  the same, but a rejected token is drawn from p
 *     argmax       x is q's likeliest token, scored as if it had been drawn from q
 *     lenient      keeps with min(1, p / (ℓ·q)), ℓ < 1
 */

import { acceptance, residual } from "./acceptance";
import type { Draws } from "./draws";
import { outcomes } from "./enumerate";
import { argmax, mass, type Law } from "./law";

export const RULES = ["right", "from-target", "argmax", "lenient"] as const;
export type Rule = (typeof RULES)[number];

/** ℓ of the lenient rule: a token may be drafted twice as often as it should be. */
export const LENIENCE = 0.5;

export interface Emission {
  readonly drafted: number;
  readonly accepted: boolean;
  readonly token: number;
}

/** Probability that `rule` keeps a drafted token. */
export function keeps(rule: Rule, p: Law, q: Law, token: number): number {
  if (rule !== "lenient") return acceptance(p, q, token);
  const [target, draft] = [mass(p, token), LENIENCE * mass(q, token)];
  return target < draft ? target / draft : Number(target > 0);
}

/** One token by `rule`. */
export function emit(rule: Rule, p: Law, q: Law, draws: Pick<Draws, "accept" | "draw">): Emission {
  const drafted = rule === "argmax" ? argmax(q) : draws.draw(q);
  if (draws.accept(keeps(rule, p, q, drafted), 0)) return { drafted, accepted: true, token: drafted };
  const law = rule === "from-target" ? p : residual(p, q);
  return { drafted, accepted: false, token: draws.draw(law) };
}

/** The law of the tokens that `rule` emits, exactly: p for the right one. */
export function ruleLaw(rule: Rule, p: Law, q: Law): Law {
  const law = p.map(() => 0);
  for (const { value, weight } of outcomes((draws) => emit(rule, p, q, draws))) {
    law[value.token] = mass(law, value.token) + weight;
  }
  return law;
}
