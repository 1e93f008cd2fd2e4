/**
 * The race of chapter 1: one text, written twice on one clock.
 *
 * The target's text is given (temperature 0: it has one answer). The drafter knows one thing only,
 * which word follows which most often, and is asked for γ words a round; the target reads them in
 * one pass, keeps those before the first difference, and adds a word of its own. Times are in the
 * unit of the cost curve: `pass(n)` is what a pass over n rows takes, `guess` what one guess takes.
 */

export type Kind = "accepted" | "residual" | "bonus";

export interface Event {
  start: number; // when the round's drafting begins
  drafted: readonly string[];
  accepted: number;
  pass: number; // when the pass begins
  end: number; // when its words are there
  words: readonly string[]; // that it brought
  kinds: readonly Kind[];
}

export interface Costs {
  pass: (rows: number) => number;
  guess: number;
}

/** Which word follows each word most often in `text`; the earliest of equals. */
export function followers(text: readonly string[]): Map<string, string> {
  const counts = new Map<string, Map<string, number>>();
  for (let i = 1; i < text.length; i++) {
    const [word, next] = [text[i - 1]!, text[i]!];
    const row = counts.get(word) ?? new Map<string, number>();
    row.set(next, (row.get(next) ?? 0) + 1);
    counts.set(word, row);
  }
  return new Map(
    [...counts].map(([word, row]) => {
      const [best] = [...row].reduce((a, b) => (b[1] > a[1] ? b : a));
      return [word, best];
    }),
  );
}

/** Rounds that write `text` after its first word, γ guesses each; γ = 0 is plain decoding. */
export function run(text: readonly string[], gamma: number, costs: Costs): Event[] {
  const guess = followers(text);
  const events: Event[] = [];
  let [at, now] = [1, 0];
  while (at < text.length) {
    const drafted: string[] = [];
    let last = text[at - 1]!;
    while (drafted.length < Math.min(gamma, text.length - 1 - at)) {
      const next = guess.get(last);
      if (next === undefined) break;
      drafted.push(next);
      last = next;
    }
    const wrong = drafted.findIndex((word, i) => word !== text[at + i]);
    const accepted = wrong < 0 ? drafted.length : wrong;
    const pass = now + drafted.length * costs.guess;
    const end = pass + costs.pass(drafted.length + 1);
    const kinds: Kind[] = Array<Kind>(accepted).fill("accepted");
    kinds.push(wrong < 0 ? "bonus" : "residual");
    const words = text.slice(at, at + accepted + 1);
    events.push({ start: now, drafted, accepted, pass, end, words, kinds });
    [at, now] = [at + words.length, end];
  }
  return events;
}

export const finish = (events: readonly Event[]): number => events.at(-1)?.end ?? 0;

/** The events that are over at a time. */
export const past = (events: readonly Event[], time: number): Event[] =>
  events.filter((e) => e.end <= time + 1e-9);
