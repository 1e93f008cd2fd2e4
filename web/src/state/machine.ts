/**
 * The reader's own machine, as far as it was measured: what passes cost there, and how a text went
 * that it wrote. Pure: the server is state/server.svelte.ts.
 */

import type { Curve } from "../core/costs";
import type { Stats } from "../trace/fold";
import type { Setup } from "../trace/server";

/** A text that the machine wrote, as chapter 8 marks it. */
export interface Point {
  /** Share of judged guesses that were kept. */
  readonly alpha: number;
  /** Guesses a round, on average. */
  readonly gamma: number;
  /** Times as fast as one plain pass a token. */
  readonly speedup: number;
}

/** Widths that chapters show. */
const ROWS = 16;

export function curveOf(setup: Pick<Setup, "model" | "processor" | "costs"> | undefined): Curve | null {
  const seconds = setup?.costs?.target_seconds ?? [];
  const one = seconds[0];
  if (setup === undefined || one === undefined || seconds.length < ROWS || !seconds.every((s) => s > 0)) return null;
  const draft = Object.values(setup.costs?.draft_seconds ?? {})[0]?.[0];
  return {
    id: "here",
    model: setup.model,
    machine: setup.processor,
    here: true,
    pass: seconds.slice(0, ROWS).map((s) => 1000 * s),
    ...(draft === undefined ? {} : { draft: draft / one }),
  };
}

/** null where nothing was drafted, or no plain pass was measured. */
export function pointOf(run: Stats, curve: Curve | null): Point | null {
  const judged = run.accepted + run.corrected;
  const plain = curve?.pass[0];
  if (plain === undefined || judged === 0 || !(run.seconds > 0)) return null;
  return {
    alpha: run.accepted / judged,
    gamma: run.drafted / run.rounds,
    speedup: (run.tokens * plain) / 1000 / run.seconds,
  };
}
