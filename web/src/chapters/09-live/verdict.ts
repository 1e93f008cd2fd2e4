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

export interface Bar {
  readonly token: number;
  readonly p: number;
  readonly q: number | undefined;
}

/** Tokens of two heads side by side, likeliest first, the guessed one among them; at most `count`. */
export function bars(p: Head, q: Head | undefined, guess: Drafted, count: number): readonly Bar[] {
  const of = (head: Head, token: number): number | undefined => head.find(([id]) => id === token)?.[1];
  const ids = [...new Set([...p, ...(q ?? [])].map(([id]) => id))];
  const all = ids.map((token) => ({ token, p: of(p, token) ?? 0, q: q && (of(q, token) ?? 0) }));
  const found = all.filter(({ token }) => token !== guess.token).toSorted((a, b) => weight(b) - weight(a));
  const own = { token: guess.token, p: guess.p, q: q && guess.q };
  return [own, ...found.slice(0, count - 1)].toSorted((a, b) => weight(b) - weight(a));
}

function weight(bar: Bar): number {
  return Math.max(bar.p, bar.q ?? 0);
}

/** A token for a label: line ends and lone spaces are made visible. */
export function visible(word: string): string {
  const shown = word.replace(/\n/g, "↵").replace(/\t/g, "⇥");
  return /^ +$/.test(shown) ? "␣".repeat(shown.length) : shown;
}

/** The first round in which a guess was kept and another corrected: there is most to see. */
export function telling(rounds: readonly Round[]): number {
  const found = rounds.findIndex(({ kinds }) => kinds.includes("accepted") && kinds.at(-1) === "residual");
  return Math.max(found, 0);
}
