/**
 * One sentence, written by four drafted words and one target pass a round, as values: what was
 * drafted, what the pass said, how each place was judged, and the steps in which it is told.
 *
 * A round is computed once; a step only says how much of it is shown. So stepping forwards and back
 * are inverse, and nothing is drawn twice.
 */

import { block, blockSteps } from "../../core/block";
import { coupled } from "../../core/coupled";
import { SeededDraws, type Draws } from "../../core/draws";
import { outcomes } from "../../core/enumerate";
import { argmax, inverseCdf, pointMass, type Law } from "../../core/law";
import { uniformAt } from "../../core/random";
import { rejection } from "../../core/rejection";
import { at, chain, type Proposal, type Verdict } from "../../core/round";
import type { Language } from "./language";

export const GAMMA = 4;
const ROUNDS = 8; // at most, of a sentence

export type Mode = "greedy" | "sampled" | "block" | "coupled";

/** All ways that the chapter tells: along a chain, or over a tree that is drawn, or of the likeliest paths. */
export type Way = Mode | "drawn" | "tree";

/**
 * Added to the page's seed, so that the luck a reader meets first shows words kept and words
 * rejected in both languages. Likeliest trees and coupled chains share theirs, and so their text.
 */
export const LUCK: Readonly<Record<Way, number>> = { greedy: 0, sampled: 1641, block: 23, drawn: 3310, tree: 1181, coupled: 1181 };

/** A place of the text that the round looks at. */
export interface Place {
  drafted: number | null; // null: the place after the last draft
  p: Law;
  q: Law;
  chance: number | null; // of being kept; null: never judged
  coin: number | null;
  ratio: number | null; // block verification's running product
  luck: readonly number[] | null; // exponentials of the place, where they are shared
  own: number | null; // what the target says here, where that is one word
  passed: boolean; // its coin, or its comparison
}

export type Step =
  | { kind: "start" | "pass" | "longest" | "next" | "done" }
  | { kind: "draft" | "judge"; place: number };

export interface Round {
  mode: Mode;
  before: readonly number[];
  places: readonly Place[]; // of the drafts, and one after them
  accepted: number;
  next: { word: number; kind: "residual" | "bonus"; law: Law } | null; // null: a draft ended the text
  after: readonly number[];
  steps: readonly Step[];
}

/** The models' laws after a text; at temperature 0 all mass is on the likeliest word. */
function laws(of: Language, mode: Mode, last: number): { p: Law; q: Law } {
  const [p, q] = [at(of.p, last), at(of.q, last)];
  if (mode !== "greedy") return { p, q };
  return { p: pointMass(argmax(p), p.length), q: pointMass(argmax(q), q.length) };
}

type Choose = (q: Law, place: number, path: readonly number[]) => number;

/** Up to γ words by `choose`, with the laws of their places; the draft ends with the text. */
function draft(of: Language, mode: Mode, last: number, gamma: number, choose: Choose) {
  const tokens: number[] = [];
  const [p, q]: [Law[], Law[]] = [[], []];
  for (let prior = last; tokens.length < gamma && prior !== of.stop; prior = at(tokens, -1 + tokens.length)) {
    const both = laws(of, mode, prior);
    [p.push(both.p), q.push(both.q)];
    tokens.push(choose(both.q, tokens.length, tokens));
  }
  const end = laws(of, mode, tokens.at(-1) ?? last);
  return { proposal: chain(tokens, q), p: [...p, end.p], q: [...q, end.q] };
}

const verifiers = { greedy: coupled, sampled: rejection, block, coupled };

export function round(of: Language, mode: Mode, before: readonly number[], seed: number, index: number): Round {
  const draws = new SeededDraws(seed, index, before.length);
  const choose: Choose =
    mode === "coupled" || mode === "greedy"
      ? (q, _, path) => draws.race(q, path)
      : (q, place) => inverseCdf(q, uniformAt(seed, `draft ${index}`, place));
  const { proposal, p, q } = draft(of, mode, at(before, before.length - 1), GAMMA, choose);
  const ended = proposal.tokens.at(-1) === of.stop;
  const verdict = verifiers[mode](proposal, p, draws);
  const accepted = verdict.path.length;
  const over = ended && accepted === proposal.tokens.length;
  const blocks = mode === "block" ? blockSteps(proposal, p) : [];
  const single = mode === "greedy" || mode === "coupled";
  const places = p.map((law, i): Place => {
    const drafted = proposal.tokens[i] ?? null;
    const judged = drafted !== null && (mode === "block" || i <= accepted);
    const coin = draws.coins.get(i) ?? null;
    const chance = judged ? (verdict.acceptance[i] ?? null) : null;
    return {
      drafted,
      p: law,
      q: at(q, i),
      chance,
      coin,
      ratio: blocks[i]?.path ?? null,
      luck: mode === "coupled" ? draws.exponentials(i, law.length) : null,
      own: single && i <= accepted ? draws.race(law, proposal.tokens.slice(0, i)) : null,
      passed: coin === null ? i < accepted : coin < (chance ?? 0),
    };
  });
  const next = over ? null : { word: verdict.token, kind: verdict.kind, law: verdict.law };
  const after = [...before, ...proposal.tokens.slice(0, accepted), ...(next ? [next.word] : [])];
  return { mode, before, places, accepted, next, after, steps: steps(mode, proposal, accepted, next !== null) };
}

function steps(mode: Mode, proposal: Proposal, accepted: number, next: boolean): Step[] {
  const count = proposal.tokens.length;
  const judged = mode === "block" ? count : Math.min(accepted + 1, count);
  const told: Step[] = [{ kind: "start" }];
  for (let place = 0; place < count; place++) told.push({ kind: "draft", place });
  told.push({ kind: "pass" });
  for (let place = 0; place < judged; place++) told.push({ kind: "judge", place });
  if (mode === "block") told.push({ kind: "longest" });
  if (next) told.push({ kind: "next" });
  told.push({ kind: "done" });
  return told;
}

/** How much of a round is shown at one of its steps. */
export function shown(of: { readonly steps: readonly Step[] }, step: number) {
  const past = of.steps.slice(0, step + 1);
  const count = (kind: Step["kind"]) => past.filter((s) => s.kind === kind).length;
  return {
    drafted: count("draft"),
    pass: count("pass") > 0,
    judged: count("judge"),
    settled: count("longest") > 0,
    next: count("next") > 0,
    done: count("done") > 0,
  };
}

/** Rounds from the prompt to the end of the text. */
export function sentence<R extends { readonly after: readonly number[] }>(
  of: Language,
  next: (text: readonly number[], index: number) => R,
): R[] {
  const rounds: R[] = [];
  let text = of.prompt;
  while (text.at(-1) !== of.stop && rounds.length < ROUNDS) {
    const one = next(text, rounds.length);
    rounds.push(one);
    text = one.after;
  }
  return rounds;
}

/** Words that the first round brings on average over all luck, exactly. */
export function expectedWords(of: Language, mode: "sampled" | "block"): number {
  const last = at(of.prompt, of.prompt.length - 1);
  const run = (draws: Draws): number => {
    const { proposal, p } = draft(of, mode, last, GAMMA, (q) => draws.draw(q));
    const ended = proposal.tokens.at(-1) === of.stop;
    const verdict: Verdict = verifiers[mode](proposal, p, { ...draws, draw: () => 0 });
    const all = verdict.path.length === proposal.tokens.length;
    return verdict.path.length + (ended && all ? 0 : 1);
  };
  return outcomes(run).reduce((sum, o) => sum + o.weight * o.value, 0);
}

export type Drafter = "none" | "blind" | "draft" | "same";

/**
 * The whole text under shared luck, by any drafter: 'blind' takes all words that can follow for
 * equally likely, 'same' is the target itself.
 */
export function coupledText(of: Language, seed: number, drafter: Drafter): { text: number[]; passes: number } {
  const q = (last: number): Law => {
    const p = at(of.p, last);
    const next = p.filter((m) => m > 0).length;
    if (drafter === "blind") return p.map((m) => (m > 0 ? 1 / next : 0));
    return drafter === "draft" ? at(of.q, last) : p;
  };
  const model: Language = { ...of, q: of.words.map((_, last) => q(last)) };
  const gamma = drafter === "none" ? 0 : GAMMA;
  const text = [...of.prompt];
  let passes = 0;
  while (text.at(-1) !== of.stop) {
    const draws = new SeededDraws(seed, passes++, text.length);
    const { proposal, p } = draft(model, "coupled", at(text, text.length - 1), gamma, (law, _, path) => draws.race(law, path));
    const verdict = coupled(proposal, p, draws);
    text.push(...verdict.path.map((node) => at(proposal.tokens, node)));
    if (text.at(-1) !== of.stop) text.push(verdict.token);
  }
  return { text, passes };
}
