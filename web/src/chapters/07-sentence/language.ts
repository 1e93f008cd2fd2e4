/**
 * Two tiny languages, English and Chinese, each known to two models: for every word, which words may
 * follow, with the target's and the draft's probability. Small enough to show every law whole.
 */

import type { Law } from "../../core/law";

export interface Language {
  words: readonly string[];
  prompt: readonly number[];
  stop: number; // the word that ends a text
  p: readonly Law[]; // the target's law after each word
  q: readonly Law[]; // the draft's
}

/** After a word: each next word with [target, draft]. */
type Rows = Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>>;

export function language(prompt: readonly string[], rows: Rows, stop: string): Language {
  const words = [...new Set([...prompt, ...Object.keys(rows), stop])];
  const id = (word: string): number => {
    const found = words.indexOf(word);
    if (found < 0) throw new RangeError(`no row for the word ${word}`);
    return found;
  };
  const laws = (which: 0 | 1): Law[] =>
    words.map((word) => {
      const law = words.map(() => 0);
      if (word === stop) law[id(stop)] = 1; // nothing follows: a text stays ended
      for (const [next, both] of Object.entries(rows[word] ?? {})) law[id(next)] = both[which];
      return law;
    });
  return { words, prompt: prompt.map(id), stop: id(stop), p: laws(0), q: laws(1) };
}

const verbs = { sailed: [0.4, 0.3], stayed: [0.35, 0.2], slept: [0.25, 0.5] } as const;
const after = { ",": [0.4, 0.3], and: [0.3, 0.5], ".": [0.3, 0.2] } as const;

export const english = language(
  ["The", "sea", "was"],
  {
    was: { calm: [0.5, 0.42], wild: [0.3, 0.18], blue: [0.2, 0.4] },
    calm: { that: [0.6, 0.7], and: [0.25, 0.22], ",": [0.15, 0.08] },
    wild: { that: [0.45, 0.7], and: [0.4, 0.22], ",": [0.15, 0.08] },
    blue: { that: [0.25, 0.6], and: [0.65, 0.3], ",": [0.1, 0.1] },
    that: { day: [0.45, 0.7], night: [0.4, 0.12], morning: [0.15, 0.18] },
    day: after,
    night: { ",": [0.5, 0.3], and: [0.25, 0.5], ".": [0.25, 0.2] },
    morning: { ",": [0.6, 0.4], and: [0.3, 0.45], ".": [0.1, 0.15] },
    ",": { and: [0.55, 0.75], so: [0.3, 0.15], but: [0.15, 0.1] },
    and: { we: [0.45, 0.6], ships: [0.3, 0.3], I: [0.25, 0.1] },
    so: { we: [0.6, 0.6], ships: [0.15, 0.3], I: [0.25, 0.1] },
    but: { we: [0.4, 0.6], ships: [0.2, 0.3], I: [0.4, 0.1] },
    we: verbs,
    ships: { sailed: [0.7, 0.6], stayed: [0.25, 0.25], slept: [0.05, 0.15] },
    I: { sailed: [0.2, 0.3], stayed: [0.45, 0.2], slept: [0.35, 0.5] },
    sailed: { home: [0.5, 0.65], away: [0.35, 0.2], ".": [0.15, 0.15] },
    stayed: { home: [0.6, 0.65], ".": [0.4, 0.35] },
    slept: { well: [0.3, 0.5], ".": [0.7, 0.5] },
    home: { ".": [0.8, 0.6], and: [0.2, 0.4] },
    away: { ".": [0.75, 0.6], and: [0.25, 0.4] },
    well: { ".": [0.85, 0.7], and: [0.15, 0.3] },
  },
  ".",
);

export const chinese = language(
  ["那天", "的", "海"],
  {
    海: { 很: [0.5, 0.42], 格外: [0.3, 0.18], 有点: [0.2, 0.4] },
    很: { 平静: [0.55, 0.5], 蓝: [0.25, 0.35], 凶: [0.2, 0.15] },
    格外: { 平静: [0.5, 0.3], 蓝: [0.4, 0.3], 凶: [0.1, 0.4] },
    有点: { 平静: [0.1, 0.4], 蓝: [0.3, 0.35], 凶: [0.6, 0.25] },
    平静: { "，": [0.75, 0.6], "。": [0.25, 0.4] },
    蓝: { "，": [0.6, 0.6], "。": [0.4, 0.4] },
    凶: { "，": [0.7, 0.6], "。": [0.3, 0.4] },
    "，": { 我们: [0.5, 0.7], 船: [0.3, 0.2], 我: [0.2, 0.1] },
    我们: { 出海: [0.4, 0.3], 靠岸: [0.25, 0.2], 睡: [0.35, 0.5] },
    船: { 出海: [0.35, 0.5], 靠岸: [0.6, 0.35], 停: [0.05, 0.15] },
    我: { 出海: [0.25, 0.3], 靠岸: [0.2, 0.2], 睡: [0.55, 0.5] },
    出海: { 了: [0.85, 0.7], "。": [0.15, 0.3] },
    靠岸: { 了: [0.9, 0.7], "。": [0.1, 0.3] },
    睡: { 了: [0.6, 0.8], 着: [0.4, 0.2] },
    停: { 了: [0.5, 0.8], 着: [0.5, 0.2] },
    着: { 了: [0.7, 0.6], "。": [0.3, 0.4] },
    了: { "。": [0.65, 0.5], "，": [0.35, 0.5] },
  },
  "。",
);
