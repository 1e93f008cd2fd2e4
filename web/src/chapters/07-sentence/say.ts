/** The sentences of a round's steps, from its values. */

import { draftMass } from "../../core/acceptance";
import { mass } from "../../core/law";
import { at, ROOT } from "../../core/round";
import { fixed, integer } from "../../i18n/number";
import type { Language } from "./language";
import type { DrawnRound } from "./drawn";
import type { Round, Step } from "./rounds";
import type { TreeRound } from "./tree";
import type { Words } from "./words";

export type AnyRound = Round | TreeRound | DrawnRound;

/** A text as it is written: no space before marks, none at all between Chinese words. */
export function written(of: Language, text: readonly number[], joiner: string): string {
  return text.map((x, i) => gap(of, x, i, joiner) + at(of.words, x)).join("");
}

export function gap(of: Language, word: number, place: number, joiner: string): string {
  return place === 0 || /^[.,]$/.test(at(of.words, word)) ? "" : joiner;
}

function ending(w: Words, of: Language, round: { before: readonly number[]; after: readonly number[] }): string {
  const n = integer(round.after.length - round.before.length);
  return round.after.at(-1) === of.stop ? w.steps.over(n) : w.steps.done(n);
}

export function labelsOf(w: Words, of: Language, round: AnyRound): string[] {
  return round.steps.map((step) => {
    if (round.mode === "tree") return treeLabel(w, of, round, step);
    return round.mode === "drawn" ? drawnLabel(w, of, round, step) : chainLabel(w, of, round, step);
  });
}

function chainLabel(w: Words, of: Language, round: Round, step: Step): string {
  const next = round.next === null ? "" : at(of.words, round.next.word);
  switch (step.kind) {
    case "start":
      return w.steps.start;
    case "pass":
      return w.steps.pass(integer(round.places.length));
    case "longest":
      return w.steps.longest(integer(round.accepted));
    case "done":
      return ending(w, of, round);
    case "next":
      if (round.next?.kind === "bonus") return w.steps.bonus(next);
      return (round.mode === "sampled" || round.mode === "block" ? w.steps.residual : w.steps.instead)(next);
  }
  const place = at(round.places, step.place);
  const drafted = place.drafted ?? -1;
  const word = at(of.words, drafted);
  const [p, q] = [mass(place.p, drafted), mass(place.q, drafted)];
  if (step.kind === "draft") return w.steps.draft[round.mode](word, fixed(q));
  if (place.own !== null) return place.own === drafted ? w.steps.same(word) : w.steps.differs(word, at(of.words, place.own));
  const [chance, coin] = [fixed(place.chance ?? 0), fixed(place.coin ?? 0)];
  if (round.mode === "block") {
    return (place.passed ? w.steps.passes : w.steps.fails)(word, fixed(place.ratio ?? 0), chance, coin);
  }
  if (p >= q) return w.steps.always(word, fixed(p), fixed(q));
  return (place.passed ? w.steps.keep : w.steps.reject)(word, chance, coin);
}

function treeLabel(w: Words, of: Language, round: TreeRound, step: Step): string {
  switch (step.kind) {
    case "draft": {
      const node = at(round.nodes, step.place);
      return w.steps.draft.tree(at(of.words, node.word), fixed(node.q));
    }
    case "judge": {
      const { word, node } = at(round.walk, step.place);
      return (node === null ? w.steps.off : w.steps.down)(at(of.words, word));
    }
    case "pass":
      return w.steps.pass(integer(round.p.length));
    case "next":
      return w.steps.bonus(at(of.words, round.next?.word ?? -1));
    case "done":
      return ending(w, of, round);
    default:
      return w.steps.start;
  }
}

function drawnLabel(w: Words, of: Language, round: DrawnRound, step: Step): string {
  const word = (node: number): string => at(of.words, node === ROOT ? (round.before.at(-1) ?? -1) : at(round.nodes, node).word);
  switch (step.kind) {
    case "draft": {
      const { parent, q } = at(round.nodes, step.place);
      const elder = round.nodes.findIndex((node) => node.parent === parent);
      if (elder === step.place) return w.steps.drawn.first(word(parent), word(step.place), fixed(q));
      return w.steps.drawn.second(word(parent), word(elder), word(step.place), fixed(q));
    }
    case "judge": {
      const { node, p, q, chance, coin, kept } = at(round.judged, step.place);
      const x = at(round.nodes, node).word;
      if (chance >= 1) return w.steps.drawn.always(word(node), fixed(mass(p, x)), fixed(draftMass(q, x)));
      return (kept ? w.steps.drawn.keep : w.steps.drawn.reject)(word(node), fixed(chance), fixed(coin));
    }
    case "pass":
      return w.steps.pass(integer(round.p.length));
    case "next": {
      const next = at(of.words, round.next?.word ?? -1);
      return (round.next?.kind === "bonus" ? w.steps.drawn.bonus : w.steps.drawn.left)(next);
    }
    case "done":
      return ending(w, of, round);
    default:
      return w.steps.start;
  }
}
