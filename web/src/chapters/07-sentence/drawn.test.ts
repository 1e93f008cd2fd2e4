import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { draftMass } from "../../core/acceptance";
import { inverseCdf, mass, total } from "../../core/law";
import { uniformAt } from "../../core/random";
import { at, childrenOf, ROOT } from "../../core/round";
import { draw, drawnRound, everyTree } from "./drawn";
import { chinese, english } from "./language";
import { sentence, shown } from "./rounds";

describe.each([["en", english], ["zh", chinese]] as const)("trees that are drawn, %s", (_, of) => {
  it("leave every two words the target's probability, over all trees and all coins", () => {
    const { pairs, ways } = everyTree(of, false);
    expect(ways).toBeGreaterThan(500);
    expect(pairs.reduce((sum, pair) => sum + pair.found, 0)).toBeCloseTo(1, 12);
    for (const { found, wanted } of pairs) expect(Math.abs(found - wanted)).toBeLessThan(1e-12);
  });

  it("do not, where guesses are judged by q as it was", () => {
    const worst = Math.max(...everyTree(of, true).pairs.map(({ found, wanted }) => Math.abs(found - wanted)));
    expect(worst).toBeGreaterThan(0.01);
  });

  it("bring more words than a chain as deep", () => {
    const [tree, chain] = [everyTree(of, false).brought, everyTree(of, false, [1, 1]).brought];
    expect(tree).toBeGreaterThan(chain + 0.1);
  });

  it("never guess a word twice in a family, and nothing after the end", () => {
    fc.assert(
      fc.property(fc.nat(100_000), fc.constantFrom(...of.words.flatMap((_, x) => (total(at(of.q, x)) > 0 ? [x] : []))), (seed, start) => {
        const { proposal, nodes } = draw(of, start, (law, node) => inverseCdf(law, uniformAt(seed, "tree", node)));
        for (const node of [ROOT, ...nodes.keys()]) {
          const family = childrenOf(proposal, node).map((child) => at(nodes, child).word);
          expect(new Set(family).size).toBe(family.length);
          const word = node === ROOT ? start : at(nodes, node).word;
          if (word === of.stop) expect(family).toEqual([]);
          for (const child of childrenOf(proposal, node)) {
            expect(mass(at(of.q, word), at(nodes, child).word)).toBeGreaterThan(0);
            expect(at(nodes, child).q).toBe(draftMass(at(proposal.q, child), at(nodes, child).word));
          }
        }
      }),
    );
  });

  it("are told guess by guess, each against what is left of p", () => {
    fc.assert(
      fc.property(fc.nat(100_000), (seed) => {
        for (const r of sentence(of, (text, i) => drawnRound(of, text, seed, i))) {
          const kept = r.judged.filter((one) => one.kept);
          expect(kept.map((one) => one.node)).toEqual(r.path);
          for (const one of r.judged) expect(one.coin < one.chance).toBe(one.kept);
          // the first of a family meets p itself, the next what a rejection left
          for (const [i, one] of r.judged.entries()) {
            const elder = i > 0 && !at(r.judged, i - 1).kept;
            if (!elder) expect(one.p).toEqual(at(r.p, at(r.nodes, one.node).parent + 1));
            else expect(mass(one.p, at(r.nodes, at(r.judged, i - 1).node).word)).toBe(0);
          }
          expect(r.after.slice(r.before.length)).toEqual([...r.path.map((n) => at(r.nodes, n).word), ...(r.next ? [r.next.word] : [])]);
          const all = r.steps.map((_, i) => shown(r, i));
          for (let i = 1; i < all.length; i++) expect(all[i]).not.toEqual(all[i - 1]);
        }
      }),
      { numRuns: 40 },
    );
  });
});
