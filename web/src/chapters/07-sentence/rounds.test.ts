import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { at } from "../../core/round";
import { total } from "../../core/law";
import { chinese, english } from "./language";
import { coupledText, expectedWords, GAMMA, round, sentence, shown, type Mode } from "./rounds";
import { ancestors, expected, grow, NODES, treeRound } from "./tree";

const languages = [["en", english], ["zh", chinese]] as const;
const modes: Mode[] = ["greedy", "sampled", "block", "coupled"];
const seeds = fc.nat(100_000);

describe.each(languages)("the language %s", (_, of) => {
  it("has a law of both models after every word that can be said", () => {
    const said = new Set<number>([of.prompt.at(-1) ?? -1]);
    for (const word of said) {
      expect(total(at(of.p, word))).toBeCloseTo(1, 12);
      expect(total(at(of.q, word))).toBeCloseTo(1, 12);
      for (const law of [at(of.p, word), at(of.q, word)]) law.forEach((m, x) => m > 0 && said.add(x));
    }
    expect(said.size).toBe(of.words.length - of.prompt.length + 1);
  });

  it.each(modes)("is written to its end by %s", (mode) => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const rounds = sentence(of, (text, i) => round(of, mode, text, seed, i));
        for (const r of rounds) {
          const drafted = r.places.flatMap((place) => (place.drafted === null ? [] : [place.drafted]));
          expect(r.after.slice(r.before.length)).toEqual([
            ...drafted.slice(0, r.accepted),
            ...(r.next ? [r.next.word] : []),
          ]);
          expect(r.next?.kind ?? "bonus").toBe(r.accepted < drafted.length ? "residual" : "bonus");
          expect(r.next === null).toBe(r.accepted === drafted.length && drafted.at(-1) === of.stop);
          expect(r.after.indexOf(of.stop) % r.after.length).toBe(r.after.at(-1) === of.stop ? r.after.length - 1 : -1);
          // a word that the target never says is never there
          r.after.forEach((x, i) => i >= r.before.length && expect(at(of.p, at(r.after, i - 1))[x]).toBeGreaterThan(0));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("tells each step once, and all of them by the end", () => {
    fc.assert(
      fc.property(seeds, fc.constantFrom(...modes), (seed, mode) => {
        const r = round(of, mode, of.prompt, seed, 0);
        const all = r.steps.map((_, i) => shown(r, i));
        for (let i = 1; i < all.length; i++) expect(all[i]).not.toEqual(all[i - 1]);
        expect(all.at(-1)).toMatchObject({ drafted: r.places.length - 1, pass: true, done: true });
        expect(all[0]).toMatchObject({ drafted: 0, pass: false, judged: 0, next: false, done: false });
      }),
      { numRuns: 60 },
    );
  });

  it("keeps greedy drafts that are the target's own words", () => {
    for (const r of sentence(of, (text, i) => round(of, "greedy", text, 1, i))) {
      for (const place of r.places.slice(0, r.accepted)) expect(place.own).toBe(place.drafted);
      if (r.next?.kind === "residual") expect(r.places[r.accepted]?.own).toBe(r.next.word);
    }
  });

  it("brings on average what was computed, and more by blocks", () => {
    const runs = 4000;
    for (const mode of ["sampled", "block"] as const) {
      let sum = 0;
      for (let seed = 0; seed < runs; seed++) {
        const r = round(of, mode, of.prompt, seed, 0);
        sum += r.after.length - r.before.length;
      }
      expect(Math.abs(sum / runs - expectedWords(of, mode))).toBeLessThan((5 * GAMMA) / 2 / Math.sqrt(runs));
    }
    expect(expectedWords(of, "block")).toBeGreaterThan(expectedWords(of, "sampled") + 0.01);
  });

  it("says the same by any drafter under shared luck", () => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const plain = coupledText(of, seed, "none");
        expect(plain.passes).toBe(plain.text.length - of.prompt.length);
        for (const drafter of ["blind", "draft", "same"] as const) {
          expect(coupledText(of, seed, drafter).text).toEqual(plain.text);
        }
        expect(coupledText(of, seed, "same").passes).toBeLessThanOrEqual(Math.ceil(plain.passes / GAMMA));
        const rounds = sentence(of, (text, i) => round(of, "coupled", text, seed, i));
        const trees = sentence(of, (text, i) => treeRound(of, text, seed, i));
        const common = (text: readonly number[]) => plain.text.slice(0, text.length);
        expect(rounds.at(-1)?.after).toEqual(common(rounds.at(-1)?.after ?? []));
        expect(trees.at(-1)?.after).toEqual(common(trees.at(-1)?.after ?? []));
      }),
      { numRuns: 40 },
    );
  });

  it("grows a tree of the likeliest paths, and it brings more than a chain", () => {
    const last = of.prompt.at(-1) ?? -1;
    const [tree, chain] = [grow(of, last), grow(of, last, false)];
    expect(tree.nodes).toHaveLength(NODES);
    tree.nodes.forEach((node, i) => {
      expect(node.parent).toBeLessThan(i);
      expect(ancestors(tree, i)).toHaveLength(node.depth);
      if (node.parent >= 0) expect(node.q).toBeLessThanOrEqual(at(tree.nodes, node.parent).q);
    });
    const paths = tree.nodes.map((_, i) => ancestors(tree, i).map((n) => at(tree.nodes, n).word).join(" "));
    expect(new Set(paths).size).toBe(NODES);
    expect(chain.nodes.every((node, i) => node.parent === i - 1)).toBe(true);
    expect(expected(of, tree)).toBeGreaterThan(expected(of, chain));
  });
});
