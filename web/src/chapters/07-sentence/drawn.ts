/**
 * A small tree that is drawn: two guesses for the next word, two after each of them, siblings from q
 * without replacement. The target reads all of it in one pass; each family is judged one guess after
 * another, against what is left of p (core/recursive.ts).
 */

import { residual, type DraftLaw } from "../../core/acceptance";
import { SeededDraws } from "../../core/draws";
import { outcomes } from "../../core/enumerate";
import { inverseCdf, mass, type Law } from "../../core/law";
import { uniformAt } from "../../core/random";
import { recursive, without } from "../../core/recursive";
import { at, childrenOf, emitted, ROOT } from "../../core/round";
import type { Language } from "./language";
import type { Step } from "./rounds";
import type { Node, Tree } from "./tree";

/** Guesses after a word, level by level. */
const WIDTHS = [2, 2];

/** A guess that was judged: against what was left of p, by its coin. */
export interface Judged {
  readonly node: number;
  readonly p: Law;
  readonly q: DraftLaw;
  readonly chance: number;
  readonly coin: number;
  readonly kept: boolean;
}

export interface DrawnRound extends Tree {
  readonly mode: "drawn";
  readonly before: readonly number[];
  readonly judged: readonly Judged[];
  readonly path: readonly number[];
  readonly next: { word: number; kind: "residual" | "bonus"; law: Law } | null;
  readonly after: readonly number[];
  readonly steps: readonly Step[];
}

/** Draw a tree below `last`; `q` of a node is the chance it was drawn with, its elder siblings being out. */
export function draw(of: Language, last: number, choose: (law: Law, node: number) => number, widths = WIDTHS): Tree {
  const nodes: Node[] = [];
  const laws: Law[] = [];
  let parents = [ROOT];
  for (const [level, width] of widths.entries()) {
    const begin = nodes.length;
    for (const parent of parents) {
      const word = parent === ROOT ? last : at(nodes, parent).word;
      // nothing is said after the end
      let law: Law | null = word === of.stop ? null : at(of.q, word);
      for (let sibling = 0; sibling < width && law !== null; sibling++) {
        const x = choose(law, nodes.length);
        laws.push(law);
        nodes.push({ word: x, parent, depth: level + 1, q: mass(law, x) });
        law = without(law, x);
      }
    }
    parents = Array.from({ length: nodes.length - begin }, (_, i) => begin + i);
  }
  const proposal = { tokens: nodes.map((n) => n.word), parents: nodes.map((n) => n.parent), q: laws };
  return { nodes, proposal, p: [last, ...proposal.tokens].map((x) => at(of.p, x)) };
}

export function drawnRound(of: Language, before: readonly number[], seed: number, index: number): DrawnRound {
  const draws = new SeededDraws(seed, index, before.length);
  const tree = draw(of, at(before, before.length - 1), (law, node) => inverseCdf(law, uniformAt(seed, `tree ${index}`, node)));
  const { nodes, proposal, p } = tree;
  const verdict = recursive(proposal, p, draws);
  const { path } = verdict;
  const judged = [ROOT, ...path].flatMap((node) => {
    let left = at(p, node + 1);
    const found: Judged[] = [];
    for (const child of childrenOf(proposal, node)) {
      const q = at(proposal.q, child);
      const kept = path.includes(child);
      found.push({ node: child, p: left, q, chance: verdict.acceptance[child] ?? 0, coin: draws.coins.get(child) ?? 0, kept });
      if (kept) break;
      left = residual(left, q, at(nodes, child).word);
    }
    return found;
  });
  const over = path.length > 0 && at(nodes, at(path, path.length - 1)).word === of.stop;
  const next = over ? null : { word: verdict.token, kind: verdict.kind, law: verdict.law };
  const after = [...before, ...path.map((node) => at(nodes, node).word), ...(next ? [next.word] : [])];
  const steps: Step[] = [
    { kind: "start" },
    ...nodes.map((_, place): Step => ({ kind: "draft", place })),
    { kind: "pass" },
    ...judged.map((_, place): Step => ({ kind: "judge", place })),
    ...(next ? [{ kind: "next" } as const] : []),
    { kind: "done" },
  ];
  return { ...tree, mode: "drawn", before, judged, path, next, after, steps };
}

/** Two words from here on: how likely by trees, and by the target alone. */
export interface Pair {
  readonly words: readonly number[];
  readonly found: number;
  readonly wanted: number;
}

/**
 * Over all trees and all coins, exactly: the law of the first two words, and how many words a round
 * brings on average. Where a round brings but one, the target adds the second. `careless` judges every
 * guess by q as it was before its siblings were drawn: the rule that one would write first, and wrong.
 */
export function everyTree(of: Language, careless: boolean, widths = WIDTHS): { pairs: Pair[]; brought: number; ways: number } {
  const last = at(of.prompt, of.prompt.length - 1);
  const law = new Map<string, number>();
  let brought = 0;
  const runs = outcomes((draws) => {
    const { proposal, p } = draw(of, last, (q) => draws.draw(q), widths);
    const whole = proposal.parents.map((parent) => at(of.q, parent === ROOT ? last : at(proposal.tokens, parent)));
    const text = emitted(proposal, recursive(careless ? { ...proposal, q: whole } : proposal, p, draws));
    const ended = text.indexOf(of.stop);
    const words = ended < 0 ? text : text.slice(0, ended + 1);
    const second = words.length > 1 ? at(words, 1) : draws.draw(at(of.p, at(words, 0)));
    return { words: words.length, pair: [at(words, 0), second] };
  });
  for (const { value, weight } of runs) {
    brought += weight * value.words;
    law.set(value.pair.join(), (law.get(value.pair.join()) ?? 0) + weight);
  }
  const pairs = at(of.p, last).flatMap((first, x) =>
    at(of.p, x).flatMap((second, y) => (first * second > 0 ? [{ words: [x, y], found: law.get(`${x},${y}`) ?? 0, wanted: first * second }] : [])),
  );
  return { pairs, brought, ways: runs.length };
}
