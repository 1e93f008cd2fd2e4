/** Statistics of a run, as folds over its rounds; they mirror src/forerun/trace.py `stats`. */

import type { Kind, Round } from "./trace";

export interface Stats {
  readonly rounds: number;
  readonly tokens: number;
  readonly drafted: number;
  readonly accepted: number;
  readonly corrected: number;
  readonly bonus: number;
  /** All of it: drafting, passes, judging. */
  readonly seconds: number;
  readonly tokensPerPass: number;
}

export function stats(rounds: readonly Round[]): Stats {
  const count = (kind: Kind): number => sum(rounds.map((round) => round.kinds.filter((k) => k === kind).length));
  const tokens = sum(rounds.map((round) => round.tokens.length));
  return {
    rounds: rounds.length,
    tokens,
    drafted: sum(rounds.map((round) => round.drafted.length)),
    accepted: count("accepted"),
    corrected: count("residual"),
    bonus: count("bonus"),
    seconds: sum(rounds.map(({ times }) => times.draft + times.target + times.verify)),
    tokensPerPass: rounds.length === 0 ? 0 : tokens / rounds.length,
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}
