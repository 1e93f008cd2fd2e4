/** What a round's numbers say in words and pictures: pure functions of a record. */

import type { Drafted, Head, Kind, Round } from "../../trace/trace";

/** Why a drafted token stayed or went. */
export type Reason = "coin" | "keptAnyway" | "chosen" | "notChosen" | "cut" | "unjudged";

export function reason(round: Round, node: number): Reason {
  const guess = round.drafted[node] as Drafted;
  if (guess.acceptance === undefined) return "unjudged";
  const passed = guess.coin === undefined ? undefined : guess.coin < guess.acceptance;
  if (passed === undefined) {
    if (guess.accepted) return "chosen";
    return ended(round) && node >= round.tokens.length ? "cut" : "notChosen";
  }
  if (guess.accepted === passed) return "coin";
  return guess.accepted ? "keptAnyway" : "cut";
}

/** Whether the round's last token is a guess: the text ended there, and what came after was cut off. */
function ended(round: Round): boolean {
  return round.kinds.at(-1) === "accepted";
}

/** The last token, where it is none of the guesses. */
export function final(round: Round): { token: number; kind: Exclude<Kind, "accepted"> } | undefined {
  const kind = round.kinds.at(-1);
  const token = round.tokens.at(-1);
  return kind === undefined || kind === "accepted" || token === undefined ? undefined : { token, kind };
}

/** A token under p and q; `below`: of one that is not in the head it is known only that it is less. */
export interface Mass {
  readonly value: number;
  readonly below?: boolean;
}

export interface Bar {
  readonly token: number;
  readonly p: Mass;
  /** Absent where there is one law alone. */
  readonly q?: Mass;
}

/** Tokens of two heads side by side, likeliest first, the guessed one among them; at most `count`. */
export function bars(p: Head, q: Head | undefined, guess: Drafted, count: number): readonly Bar[] {
  const ids = [...new Set([...p, ...(q ?? [])].map(([id]) => id))];
  const all = ids.map((token): Bar => ({ token, p: mass(p, token), ...(q && { q: mass(q, token) }) }));
  const found = all.filter(({ token }) => token !== guess.token).toSorted(falling);
  const own: Bar = { token: guess.token, p: { value: guess.p }, ...(q && { q: { value: guess.q } }) };
  return [own, ...found.slice(0, count - 1)].toSorted(falling);
}

function mass(head: Head, token: number): Mass {
  const found = head.find(([id]) => id === token);
  return found === undefined ? { value: head.at(-1)?.[1] ?? 0, below: true } : { value: found[1] };
}

function falling(a: Bar, b: Bar): number {
  return weight(b) - weight(a);
}

function weight({ p, q }: Bar): number {
  return Math.max(known(p), q === undefined ? 0 : known(q));
}

/** What a bar may show of it. */
export function known({ value, below }: Mass): number {
  return below ? 0 : value;
}

/** A token for a label: line ends and lone spaces are made visible. */
export function visible(word: string): string {
  const shown = word.replace(/\n/g, "↵").replace(/\t/g, "⇥");
  return /^ +$/.test(shown) ? "␣".repeat(shown.length) : shown;
}

/** The same in a sentence, between quotes. */
export function quoted(word: string): string {
  return visible(word).trim();
}

/** The first round in which a guess was kept and another corrected: there is most to see. */
export function telling(rounds: readonly Round[]): number {
  const found = rounds.findIndex(({ kinds }) => kinds.includes("accepted") && kinds.at(-1) === "residual");
  return Math.max(found, 0);
}
