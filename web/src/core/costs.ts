/**
 * What a target pass over n rows takes: curves measured by forerun, here or elsewhere.
 *
 * Knows neither what is drafted nor what it is worth (speed.ts).
 */

import type { PassCost } from "./speed";

export interface Curve {
  readonly id: string;
  readonly model: string;
  readonly machine: string;
  /** Measured on the reader's machine; otherwise a recording, and the page says so. */
  readonly here: boolean;
  /** Milliseconds of a pass over 1, 2, … rows; not falling. */
  readonly pass: readonly number[];
  /** What a token drafted by a model costs, in plain target passes, where one was measured. */
  readonly draft?: number;
}

/** Milliseconds of a pass over `rows`; beyond what was measured it goes on as its last step does. */
export function milliseconds(curve: Curve, rows: number): number {
  const known = curve.pass;
  const last = known.at(-1);
  if (last === undefined) throw new RangeError(`the curve ${curve.id} has no times`);
  const found = known[rows - 1];
  return found ?? last + (rows - known.length) * (last - (known.at(-2) ?? 0));
}

/** The same in plain passes: pass(1) = 1. */
export function passCost(curve: Curve): PassCost {
  return (rows) => milliseconds(curve, rows) / milliseconds(curve, 1);
}

/** Times of 1, 2, … rows from those of some widths, the first of which is 1. */
export function interpolated(rows: readonly number[], times: readonly number[]): number[] {
  const found: number[] = [];
  for (let i = 0; i + 1 < rows.length; i++) {
    const [from, to] = [rows[i] ?? 0, rows[i + 1] ?? 0];
    const [low, high] = [times[i] ?? 0, times[i + 1] ?? 0];
    for (let n = from; n < to; n++) found.push(low + ((high - low) * (n - from)) / (to - from));
  }
  return [...found, ...times.slice(-1)];
}

/** As `forerun models cost` measured them (docs/LOG.md, 2026-11-30); 2 cores of a server, no GPU. */
export const RECORDED: readonly Curve[] = [
  {
    id: "smollm2",
    model: "SmolLM2-135M",
    machine: "Intel Xeon, 2 cores",
    here: false,
    pass: [3.35, 3.7, 4.2, 4.36, 5.15, 5.59, 5.66, 6.36, 7.3, 8.25, 8.86, 9.47, 9.79, 10.1, 10.93, 11.76],
  },
  {
    id: "qwen",
    model: "Qwen2.5-Coder-1.5B",
    machine: "Intel Xeon, 2 cores",
    here: false,
    pass: interpolated([1, 2, 4, 8, 12, 16], [52, 53.2, 61.3, 72.9, 112, 128.4]),
    draft: 0.41,
  },
];

/** An idealisation and a thought experiment, on the scale of another curve. */
export function imagined(id: "flat" | "full", like: Curve): Curve {
  const one = milliseconds(like, 1);
  const pass = like.pass.map((_, i) => (id === "flat" ? one : one * (i + 1)));
  return { id, model: "", machine: "", here: false, pass };
}
