import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { branches, has, link, members, relatives } from "./family";
import { en } from "./en";
import { zh } from "./zh";

const source = (path: string): string => readFileSync(new URL(`../../../../src/forerun/${path}`, import.meta.url), "utf8");

describe("the family", () => {
  it("has each entry once, with a paper of its year at the latest", () => {
    expect(new Set(members.map((m) => m.id)).size).toBe(members.length);
    for (const m of members) {
      expect(m.arxiv === undefined).toBe(m.link !== undefined);
      if (m.arxiv === undefined) continue;
      // the first four digits of an arXiv id are year and month of the first version
      expect(m.arxiv).toMatch(/^\d{2}(0[1-9]|1[0-2])\.\d{5}$/);
      expect(2000 + Number(m.arxiv.slice(0, 2))).toBe(m.year);
      expect(link(m)).toBe(`https://arxiv.org/abs/${m.arxiv}`);
    }
  });

  it("grows in time: nothing comes from what is younger", () => {
    for (const m of members) {
      for (const before of m.from ?? []) {
        const older = members.find((o) => o.id === before);
        expect(older, `${m.id} from ${before}`).toBeDefined();
        expect(older!.year).toBeLessThanOrEqual(m.year);
        expect(relatives(older!.id).after).toContain(m);
      }
      expect(relatives(m.id).before).toHaveLength(m.from?.length ?? 0);
    }
  });

  it("fills every branch, and says one sentence of each entry in both languages", () => {
    for (const branch of branches) expect(members.some((m) => m.branch === branch)).toBe(true);
    for (const words of [en, zh]) {
      expect(Object.keys(words.sentences).sort()).toEqual(members.map((m) => m.id).sort());
      for (const sentence of Object.values(words.sentences)) expect(sentence).toMatch(/^[^.。]+[.。]$/);
    }
  });

  it("claims of forerun what it has", () => {
    const known = [
      ...source("verifiers/__init__.py").matchAll(/^ {4}"(\w+)": \w+Verifier,$/gm),
      ...source("drafters/__init__.py").matchAll(/^ {4}"([\w-]+)": \w+Drafter,$/gm),
    ].map((found) => found[1]);
    const claimed = members.flatMap(has);
    for (const name of claimed) expect(known).toContain(name);
    for (const name of [
      ...["rejection", "block", "coupled", "recursive", "greedy_plus_one", "traversal"],
      ...["model", "intersection", "string-match", "tree", "sampled-tree", "greedy-plus-one-tree"],
      ...["ngram", "suffix", "suffix-tree", "prediction", "layer-skip"],
      ...["head", "head-tree", "head-joined-tree", "head-sampled-tree", "head-greedy-plus-one-tree"],
    ]) {
      expect(claimed).toContain(name);
    }
    // of heads and of a target that drafts for itself, what it does not have
    const others = ["eagle", "mtp", "deepseek", "jacobi", "lookahead", "layerskip"];
    for (const m of members.filter(({ id }) => others.includes(id))) expect(has(m)).toEqual([]);
  });

  it("calls nothing lossless that changes the distribution", () => {
    for (const id of ["typical", "lenience", "judge", "bild"]) {
      expect(members.find((m) => m.id === id)?.lossless).toBe("no");
    }
  });
});
