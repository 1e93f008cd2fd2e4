/**
 * Every outcome of a rule, with its exact probability: run it again and again, each time with another
 * branch of its choices, until all were taken. No sampling. The library proves its own loop so.
 */

import type { Draws } from "./draws";
import { total, type Law } from "./law";
import { at, chain, emitted, type Proposal, type Verdict } from "./round";

export type Verifier = (proposal: Proposal, p: readonly Law[], draws: Draws) => Verdict;

/** Laws after a prefix of tokens. */
export type NextLaw = (prefix: readonly number[]) => Law;

/** Runs under every branch of its choices: (what it returned, with what probability). */
export function outcomes<T>(run: (draws: Draws) => T): { value: T; weight: number }[] {
  const found: { value: T; weight: number }[] = [];
  const branches: number[] = [];
  const choices: Law[] = [];
  do {
    let place = 0;
    let weight = 1;
    const choose = (law: Law): number => {
      if (place === branches.length) {
        branches.push(law.findIndex((m) => m > 0));
        choices.push(law);
      }
      const branch = at(branches, place++);
      weight *= at(law, branch);
      return branch;
    };
    found.push({ value: run(enumerated(choose)), weight });
  } while (advance(branches, choices));
  return found;
}

function advance(branches: number[], choices: Law[]): boolean {
  for (let branch = branches.pop(); branch !== undefined; branch = branches.pop()) {
    const law = choices.pop() ?? [];
    const taken = branch;
    const later = law.findIndex((m, x) => x > taken && m > 0);
    if (later >= 0) {
      branches.push(later);
      choices.push(law);
      return true;
    }
  }
  return false;
}

function enumerated(choose: (law: Law) => number): Draws {
  const raced = new Map<string, number>();
  const draw = (law: Law): number => {
    const sum = total(law);
    return choose(law.map((m) => m / sum));
  };
  return {
    accept(a) {
      return a > 0 && (a >= 1 || choose([a, 1 - a]) === 0);
    },
    draw,
    race(law, path, who) {
      if (who === "draft") return draw(law);
      const key = path.join();
      const token = raced.get(key) ?? draw(law);
      raced.set(key, token);
      return token;
    },
  };
}

/** One round: draft a chain of γ tokens from q, read it with p, judge it; the tokens it emits. */
export function playRound(
  verifier: Verifier,
  p: NextLaw,
  q: NextLaw,
  gamma: number,
  prefix: readonly number[],
  draws: Draws,
): number[] {
  const tokens: number[] = [];
  const laws: Law[] = [];
  while (tokens.length < gamma) {
    const law = q([...prefix, ...tokens]);
    laws.push(law);
    tokens.push(draws.draw(law));
  }
  const proposal = chain(tokens, laws);
  const targets = Array.from({ length: gamma + 1 }, (_, i) => p([...prefix, ...tokens.slice(0, i)]));
  return emitted(proposal, verifier(proposal, targets, draws));
}

/** Probability of every text a single round may emit, by its tokens joined with commas. */
export function roundLaw(verifier: Verifier, p: NextLaw, q: NextLaw, gamma: number): Map<string, number> {
  return gathered(outcomes((draws) => playRound(verifier, p, q, gamma, [], draws).join()));
}

export interface Limits {
  readonly end: number | null;
  readonly maxTokens: number;
}

/** Probability of every complete text that rounds write; none drafts past the budget. */
export function sequenceLaw(
  verifier: Verifier,
  p: NextLaw,
  q: NextLaw,
  gamma: number,
  limits: Limits,
): Map<string, number> {
  return complete(limits, (prefix) => {
    const room = Math.min(gamma, limits.maxTokens - prefix.length - 1);
    return outcomes((draws) => playRound(verifier, p, q, room, prefix, draws));
  });
}

/** Π p(y_t | y_<t) of every complete text: what plain decoding writes. */
export function plainLaw(p: NextLaw, limits: Limits): Map<string, number> {
  return complete(limits, (prefix) => outcomes((draws) => [draws.draw(p(prefix))]));
}

function complete(
  { end, maxTokens }: Limits,
  more: (prefix: number[]) => { value: number[]; weight: number }[],
): Map<string, number> {
  const found: { value: string; weight: number }[] = [];
  let frontier = new Map([["", 1]]);
  while (frontier.size > 0) {
    const following: { value: string; weight: number }[] = [];
    for (const [key, reached] of frontier) {
      const prefix = key === "" ? [] : key.split(",").map(Number);
      for (const { value, weight } of more(prefix)) {
        const text = cut([...prefix, ...value], end, maxTokens);
        const done = text.length === maxTokens || text.at(-1) === end;
        (done ? found : following).push({ value: text.join(), weight: reached * weight });
      }
    }
    frontier = gathered(following);
  }
  return gathered(found);
}

function cut(text: number[], end: number | null, maxTokens: number): number[] {
  const ended = end === null ? -1 : text.indexOf(end);
  return text.slice(0, Math.min(ended < 0 ? maxTokens : ended + 1, maxTokens));
}

function gathered(found: { value: string; weight: number }[]): Map<string, number> {
  const law = new Map<string, number>();
  for (const { value, weight } of found) law.set(value, (law.get(value) ?? 0) + weight);
  return law;
}
