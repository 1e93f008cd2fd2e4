/**
 * A small tree of drafts: the likeliest continuations by the draft's own reckoning, six of them, read
 * by the target in one pass, each seeing only its ancestors. The target then says its words, by the
 * luck of their places, and goes down the tree as long as they are there (core/coupled.ts).
 */

import { coupled } from "../../core/coupled";
import { SeededDraws } from "../../core/draws";
import { mass, type Law } from "../../core/law";
import { at, ROOT, type Proposal } from "../../core/round";
import type { Language } from "./language";
import type { Step } from "./rounds";

export const NODES = 6;
const DEPTH = 3;

export interface Node {
  readonly word: number;
  readonly parent: number;
  readonly depth: number; // 1 below the root
  readonly q: number; // the draft's probability: of the whole path down to here, in a tree that is grown
}

export interface Tree {
  readonly nodes: readonly Node[];
  readonly proposal: Proposal;
  readonly p: readonly Law[]; // after the root, then after each node
}

export interface TreeRound extends Tree {
  readonly mode: "tree";
  readonly before: readonly number[];
  /** What the target says on its way down, and the node that says so too. */
  readonly walk: readonly { readonly word: number; readonly node: number | null }[];
  readonly path: readonly number[];
  readonly next: { word: number; kind: "residual" | "bonus" } | null;
  readonly after: readonly number[];
  readonly steps: readonly Step[];
}

/** Grow by the likeliest path that is not in the tree yet; `wide` false makes a chain of as many. */
export function grow(of: Language, last: number, wide = true): Tree {
  const nodes: Node[] = [];
  const word = (node: number): number => (node === ROOT ? last : at(nodes, node).word);
  while (nodes.length < NODES) {
    const parents = wide ? [ROOT, ...nodes.keys()] : [nodes.length - 1];
    const open = parents.flatMap((parent) => {
      const above = parent === ROOT ? { depth: 0, q: 1 } : at(nodes, parent);
      if (word(parent) === of.stop || (wide && above.depth === DEPTH)) return [];
      const taken = nodes.filter((n) => n.parent === parent).map((n) => n.word);
      return at(of.q, word(parent)).flatMap((m, x) =>
        m > 0 && !taken.includes(x) ? [{ word: x, parent, depth: above.depth + 1, q: above.q * m }] : [],
      );
    });
    if (open.length === 0) break;
    nodes.push(open.reduce((best, n) => (n.q > best.q + 1e-12 ? n : best)));
  }
  const proposal = { tokens: nodes.map((n) => n.word), parents: nodes.map((n) => n.parent), q: nodes.map(() => null) };
  return { nodes, proposal, p: [last, ...proposal.tokens].map((x) => at(of.p, x)) };
}

/** Ancestors of a node, itself included: the rows of the mask. */
export function ancestors(tree: Tree, node: number): number[] {
  return node === ROOT ? [] : [...ancestors(tree, at(tree.nodes, node).parent), node];
}

/** Words that a pass over this tree brings on average: every node counts when the target goes there. */
export function expected(of: Language, tree: Tree): number {
  const reach = tree.nodes.reduce<number[]>((found, { word, parent }) => {
    const above = parent === ROOT ? 1 : at(found, parent);
    return [...found, above * mass(at(tree.p, parent + 1), word)];
  }, []);
  // the word after an ended text is none
  return tree.nodes.reduce((sum, { word }, i) => sum + (word === of.stop ? 0 : at(reach, i)), 1);
}

export function treeRound(of: Language, before: readonly number[], seed: number, index: number): TreeRound {
  const tree = grow(of, at(before, before.length - 1));
  const verdict = coupled(tree.proposal, tree.p, new SeededDraws(seed, index, before.length));
  const path = verdict.path;
  const over = path.length > 0 && at(tree.nodes, at(path, path.length - 1)).word === of.stop;
  const next = over ? null : { word: verdict.token, kind: verdict.kind };
  const walk = [
    ...path.map((node) => ({ word: at(tree.nodes, node).word, node })),
    ...(next?.kind === "residual" ? [{ word: next.word, node: null }] : []),
  ];
  const after = [...before, ...path.map((node) => at(tree.nodes, node).word), ...(next ? [next.word] : [])];
  const steps: Step[] = [
    { kind: "start" },
    ...tree.nodes.map((_, place): Step => ({ kind: "draft", place })),
    { kind: "pass" },
    ...walk.map((_, place): Step => ({ kind: "judge", place })),
    ...(next?.kind === "bonus" ? [{ kind: "next" } as const] : []),
    { kind: "done" },
  ];
  return { ...tree, mode: "tree", before, walk, path, next, after, steps };
}
