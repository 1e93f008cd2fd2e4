/**
 * What happened in a round, as the Python library records it (src/forerun/trace.py): one schema for
 * files, streams and this page. Field names are those of the JSON; what was not recorded is absent.
 */

import { flag, list, number, object, one, pair, text, whole, type Read } from "./read";

/** Newest version of the JSON form that is read; all earlier ones are. */
export const SCHEMA = 4;

/** Likeliest tokens of a law: id and probability, falling. */
export type Head = readonly (readonly [number, number])[];

/** Where a delivered token came from: a kept draft, a correction, or the target's own extra. */
export type Kind = "accepted" | "residual" | "bonus";

/** One drafted token. */
export interface Drafted {
  readonly token: number;
  /** Index in the round's drafts; −1: the prefix. */
  readonly parent: number;
  /** The target's probability of it. */
  readonly p: number;
  /** The probability it was drafted with; 1 for a point mass. */
  readonly q: number;
  /** Probability of its acceptance; absent: never judged. */
  readonly acceptance?: number;
  /** The uniform that decided; absent: no coin was tossed. */
  readonly coin?: number;
  readonly accepted: boolean;
  /** Heads of the target's law at its position, and of the law it was drafted with. */
  readonly p_head?: Head;
  readonly q_head?: Head;
}

/** Seconds of a round: drafting, the target's pass, judging. */
export interface Times {
  readonly draft: number;
  readonly target: number;
  readonly verify: number;
}

export interface TokenLogprob {
  readonly token: number;
  readonly logprob: number;
  readonly top: Head;
}

/** One round of one request. */
export interface Round {
  readonly request: number;
  readonly index: number;
  /** Position of tokens[0] in prompt and output. */
  readonly position: number;
  readonly verifier: string;
  readonly drafter?: string;
  readonly drafted: readonly Drafted[];
  /** Those delivered, and where each came from. */
  readonly tokens: readonly number[];
  readonly kinds: readonly Kind[];
  /** Head of the law that the last token was drawn from. */
  readonly head?: Head;
  readonly logprobs?: readonly TokenLogprob[];
  readonly expected?: { readonly tokens: number; readonly seconds: number };
  readonly times: Times;
}

const head: Read<Head> = list(pair(whole, number));

const drafted: Read<Drafted> = object(
  { token: whole, parent: whole, p: number, q: number, accepted: flag },
  { acceptance: number, coin: number, p_head: head, q_head: head },
);

const logprob: Read<TokenLogprob> = object({ token: whole, logprob: number, top: head }, {});

const fields = object(
  {
    schema: one(...Array.from({ length: SCHEMA }, (_, i) => i + 1)),
    request: whole,
    index: whole,
    position: whole,
    verifier: text,
    drafted: list(drafted),
    tokens: list(whole),
    kinds: list(one("accepted", "residual", "bonus")),
    times: object({ draft: number, target: number, verify: number }, {}),
  },
  { drafter: text, head, logprobs: list(logprob), expected: object({ tokens: number, seconds: number }, {}) },
);

/** A record as `forerun generate --trace` and the server write it. TypeError for what is none. */
export function readRound(value: unknown, at = "round"): Round {
  const { schema: _, ...round } = fields(value, at);
  return round;
}

/** The inverse of `readRound`: one object of the JSON form. */
export function writeRound(round: Round): object {
  return { schema: SCHEMA, ...round };
}
