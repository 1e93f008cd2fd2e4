import { describe, expect, it } from "vitest";
import { total } from "../../../core/law";
import { after, RULES, sentences } from "./toy";

const worst = (rule: (typeof RULES)[number], gamma: number): number =>
  Math.max(...sentences([0.6, 0.4], [0.2, 0.8], rule, gamma).map((s) => Math.abs(s.found - s.wanted)));

describe("the toy language", () => {
  it("has laws, whatever came before", () => {
    for (const prefix of [[], [0], [0, 1]]) expect(total(after([0.6, 0.4], 0.4, 0.3)(prefix))).toBeCloseTo(1, 12);
  });

  it.each([1, 2])("is written as the target writes it by the right rules, γ = %i, and not by the wrong one", (gamma) => {
    expect(worst("rejection", gamma)).toBeLessThan(1e-12);
    expect(worst("block", gamma)).toBeLessThan(1e-12);
    expect(worst("wrong", gamma)).toBeGreaterThan(0.01);
  });

  it("has fifteen sentences of at most three words", () => {
    expect(sentences([0.6, 0.4], [0.2, 0.8], "rejection", 2)).toHaveLength(15);
  });
});
