import fc from "fast-check";
import { expect, it } from "vitest";
import { weights } from "./arbitrary";
import type { Draws } from "./draws";
import { outcomes } from "./enumerate";
import { mass, type Law } from "./law";
import { recursive, without } from "./recursive";
import { at, emitted, ROOT, type Proposal } from "./round";

/** A tree with up to two children of the root and of its eldest, siblings drawn without replacement; `seen` is told to the verifier as the second one's law. */
const drawnTree = (q: readonly Law[], draws: Draws, seen: (left: Law, q: Law) => Law): Proposal => {
  const [tokens, parents, laws]: [number[], number[], Law[]] = [[], [], []];
  for (const parent of [ROOT, 0]) {
    const own = at(q, parent === ROOT ? 0 : 1 + at(tokens, parent));
    const first = draws.draw(own);
    const left = without(own, first);
    [tokens.push(first), parents.push(parent), laws.push(own)];
    if (left !== null) [tokens.push(draws.draw(left)), parents.push(parent), laws.push(seen(left, own))];
  }
  return { tokens, parents, q: laws };
};
/** Laws of the first two tokens, the second by p where a round brought but one. */
const pairs = (p: readonly Law[], q: readonly Law[], seen: (left: Law, q: Law) => Law): Map<string, number> => {
  const after = (token: number): Law => at(p, 1 + token);
  const law = new Map<string, number>();
  const runs = outcomes((draws) => {
    const proposal = drawnTree(q, draws, seen);
    const text = emitted(proposal, recursive(proposal, [at(p, 0), ...proposal.tokens.map(after)], draws));
    return [...text, draws.draw(after(at(text, text.length - 1)))].slice(0, 2).join();
  });
  for (const { value, weight } of runs) law.set(value, (law.get(value) ?? 0) + weight);
  return law;
};

it("a tree whose siblings are drawn without replacement leaves p as it is", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(weights(3), weights(3)), { minLength: 4, maxLength: 4 }), (laws) => {
      const p = laws.map(([target]) => target);
      const found = pairs(p, laws.map(([, draft]) => draft), (left) => left);
      for (let x = 0; x < 3; x++) {
        for (let y = 0; y < 3; y++) {
          expect(found.get(`${x},${y}`) ?? 0).toBeCloseTo(mass(at(p, 0), x) * mass(at(p, 1 + x), y), 12);
        }
      }
    }),
    { numRuns: 50 },
  );
});

it("but not where the second sibling is judged by the law of the first", () => {
  const [p, q] = [Array(4).fill([0.4, 0.4, 0.2]), Array(4).fill([0.1, 0.2, 0.7])] as [Law[], Law[]];
  const found = pairs(p, q, (_, whole) => whole);
  expect(Math.abs([0, 1, 2].reduce((sum, y) => sum + (found.get(`0,${y}`) ?? 0), 0) - 0.4)).toBeGreaterThan(0.02);
});
