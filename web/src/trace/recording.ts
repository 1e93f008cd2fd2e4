/**
 * A run as a file: what was asked, its rounds, and the text of every id in them. The page saves runs
 * so and opens them again; those it ships are written by web/record.py. Traces of
 * `forerun generate --trace` (one round a line) can be opened too: they know ids, not their text.
 */

import { either, flag, list, map, number, object, one, text, whole, type Read } from "./read";
import { readRound, writeRound, type Round } from "./trace";

export const VERSION = 1;

/**
 * Seconds of a pass over 1, 2, … new rows: the target's, and those of drafters that run a model; and what the
 * first pass of those takes longer behind one of the target.
 */
export interface Costs {
  readonly target_seconds: readonly number[];
  readonly draft_seconds: Readonly<Record<string, readonly number[]>>;
  readonly first_draft_seconds?: Readonly<Record<string, number>>;
}

/** What was asked of whom. */
export interface Asked {
  readonly model: string;
  readonly draft?: string;
  readonly machine?: string;
  readonly recorded?: string;
  readonly prompt: string;
  readonly chat: boolean;
  readonly verifier: string;
  readonly drafter?: string;
  readonly num_draft?: number | "auto";
  readonly temperature?: number;
  readonly seed?: number;
  readonly max_tokens?: number;
  readonly costs?: Costs;
}

export interface Recording extends Asked {
  readonly text: string;
  readonly words: Readonly<Record<string, string>>;
  readonly rounds: readonly Round[];
}

export const readCosts: Read<Costs> = object(
  { target_seconds: list(number), draft_seconds: map(list(number)) },
  { first_draft_seconds: map(number) },
);

const fields = object(
  { recording: one(VERSION), model: text, prompt: text, chat: flag, verifier: text, text, words: map(text), rounds: list(readRound) },
  {
    draft: text,
    machine: text,
    recorded: text,
    drafter: text,
    num_draft: either(whole, one("auto")),
    temperature: number,
    seed: whole,
    max_tokens: whole,
    costs: readCosts,
  },
);

/** A recording out of what a file holds. TypeError for what is none. */
export function readRecording(value: unknown): Recording {
  const { recording: _, ...found } = fields(value, "recording");
  return found;
}

export function writeRecording(found: Recording): string {
  return JSON.stringify({ recording: VERSION, ...found, rounds: found.rounds.map(writeRound) });
}

/** The text of a file that somebody chose: a recording, or lines of a trace. TypeError for neither. */
export function openFile(content: string): Recording {
  let whole: unknown;
  try {
    whole = JSON.parse(content);
  } catch {
    return ofLines(content);
  }
  if (typeof whole === "object" && whole !== null && "schema" in whole) return ofLines(content);
  return readRecording(whole);
}

function ofLines(content: string): Recording {
  const lines = content.split("\n").filter((line) => line.trim() !== "");
  const rounds = lines.map((line, i) => {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      throw new TypeError(`line ${i + 1} is no JSON`);
    }
    return readRound(value, `line ${i + 1}`);
  });
  const first = rounds[0];
  if (first === undefined) throw new TypeError("the file is empty");
  return {
    model: "",
    prompt: "",
    chat: false,
    verifier: first.verifier,
    text: "",
    words: {},
    rounds: rounds.filter((round) => round.request === first.request),
  };
}

/** A token's text, or its number where nothing says. */
export function word(words: Readonly<Record<string, string>>, token: number): string {
  return words[token] ?? `#${token}`;
}
