/** What must hold for all laws, tried on many. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { weights } from "./arbitrary";
import { acceptance, excess, kept, leak, positive, residual, totalVariation } from "./acceptance";
import { block, blockSteps } from "./block";
import { agreement, coupled, race } from "./coupled";
import { plainLaw, playRound, roundLaw, sequenceLaw, type Verifier } from "./enumerate";
import { argmax, atTemperature, inverseCdf, mass, pointMass, total, withMass, type Law } from "./law";
import { philox, Random, uniformAt } from "./random";
import { rejection } from "./rejection";
import { at, chain } from "./round";
import { emit, LENIENCE, ruleLaw, RULES } from "./rules";
import { bestGamma, expectedTokens, speedup } from "./speed";
import { band, binomialCdf, binomialQuantile, chiSquare, within } from "./statistics";

const pair = fc.integer({ min: 2, max: 5 }).chain((size) => fc.tuple(weights(size), weights(size)));
const unit = fc.double({ min: 1e-9, max: 1 - 1e-9, noNaN: true });

function near(found: Law, wanted: Law): void {
  for (const [x, m] of wanted.entries()) expect(mass(found, x)).toBeCloseTo(m, 10);
}

function distance(a: Map<string, number>, b: Map<string, number>): number {
  let sum = 0;
  for (const key of new Set([...a.keys(), ...b.keys()])) {
    sum += Math.abs((a.get(key) ?? 0) - (b.get(key) ?? 0));
  }
  return sum / 2;
}

/** Laws that depend on the whole prefix, from one law by turning it. */
const turning = (law: Law) => (prefix: readonly number[]) =>
  law.map((_, x) => at(law, (x + prefix.reduce((s, t) => s * 2 + t + 1, 0)) % law.length));

describe("laws", () => {
  it("draws no token without mass", () => {
    fc.assert(
      fc.property(pair, unit, ([p], u) => {
        expect(mass(p, inverseCdf(p, u))).toBeGreaterThan(0);
      }),
    );
  });

  it("keeps a dragged law a law, the others in proportion", () => {
    fc.assert(
      fc.property(pair, fc.nat(4), unit, ([p], token, value) => {
        const x = token % p.length;
        const found = withMass(p, x, value);
        expect(total(found)).toBeCloseTo(1, 12);
        expect(mass(found, x)).toBe(value);
        for (let y = 0; y < p.length; y++) {
          for (let z = 0; z < p.length; z++) {
            if (y === x || z === x || mass(p, x) === 1) continue;
            expect(mass(found, y) * mass(p, z)).toBeCloseTo(mass(found, z) * mass(p, y), 10);
          }
        }
      }),
    );
  });

  it("is itself at temperature 1, and greedy at 0", () => {
    fc.assert(
      fc.property(pair, ([p]) => {
        near(atTemperature(p, 1), p);
        expect(atTemperature(p, 0)).toEqual(pointMass(argmax(p), p.length));
      }),
    );
  });
});

describe("one token", () => {
  it("min(q, p) + β·[p − q]+/β = p", () => {
    fc.assert(
      fc.property(pair, ([p, q]) => {
        const beta = totalVariation(p, q);
        const law = residual(p, q);
        const found = kept(p, q).map((m, x) => m + (beta > 0 ? beta * mass(law, x) : 0));
        near(found, p);
        expect(excess(p, q)).toBeCloseTo(beta, 12);
        expect(excess(q, p)).toBeCloseTo(beta, 12);
      }),
    );
  });

  it("u = min(u, v) + [u − v]+", () => {
    fc.assert(
      fc.property(unit, unit, (u, v) => {
        expect(Math.min(u, v) + positive(u - v)).toBeCloseTo(u, 14);
      }),
    );
  });

  it("keeps q·a = min(q, p), and never a token of p = 0", () => {
    fc.assert(
      fc.property(pair, ([p, q]) => {
        for (const [x, m] of q.entries()) {
          const a = acceptance(p, q, x);
          expect(m * a).toBeCloseTo(mass(kept(p, q), x), 12);
          if (mass(p, x) === 0) expect(a).toBe(0);
        }
        expect(leak(p, null, 0).at(1)).toBe(mass(p, 1));
      }),
    );
  });

  it("has the law p by the right rule, and what was foretold by the wrong ones", () => {
    fc.assert(
      fc.property(pair, ([p, q]) => {
        near(ruleLaw("right", p, q), p);
        const beta = totalVariation(p, q);
        near(
          ruleLaw("from-target", p, q),
          kept(p, q).map((m, x) => m + beta * mass(p, x)),
        );
        const best = argmax(q);
        const a = acceptance(p, q, best);
        const r = residual(p, q);
        near(
          ruleLaw("argmax", p, q),
          p.map((_, x) => (x === best ? a : 0) + (1 - a) * mass(r, x)),
        );
        for (const rule of RULES) expect(total(ruleLaw(rule, p, q))).toBeCloseTo(1, 12);
      }),
    );
  });

  it("is wrong by the wrong rules: a mistake that shows", () => {
    const [p, q] = [
      [0.6, 0.3, 0.1],
      [0.2, 0.3, 0.5],
    ];
    for (const rule of RULES.filter((r) => r !== "right")) {
      expect(totalVariation(ruleLaw(rule, p, q), p)).toBeGreaterThan(0.05);
    }
    expect(LENIENCE).toBeLessThan(1);
  });
});

describe("verifiers", () => {
  const verifiers: [string, Verifier][] = [
    ["rejection", rejection],
    ["block", block],
    ["coupled", coupled],
  ];

  it.each(verifiers)("%s writes Π p, exactly", (_, verifier) => {
    const three = fc.tuple(weights(3), weights(3));
    fc.assert(
      fc.property(three, fc.integer({ min: 0, max: 3 }), ([p, q], gamma) => {
        const limits = { end: 2, maxTokens: 3 };
        const found = sequenceLaw(verifier, turning(p), turning(q), gamma, limits);
        expect(distance(found, plainLaw(turning(p), limits))).toBeLessThan(1e-12);
      }),
      { numRuns: 25 },
    );
  });

  it("block keeps at least as many tokens on average", () => {
    const mean = (verifier: Verifier, p: Law, q: Law) =>
      [...roundLaw(verifier, turning(p), turning(q), 3)].reduce(
        (sum, [text, weight]) => sum + weight * text.split(",").length,
        0,
      );
    fc.assert(
      fc.property(fc.tuple(weights(2), weights(2)), ([p, q]) => {
        expect(mean(block, p, q)).toBeGreaterThanOrEqual(mean(rejection, p, q) - 1e-12);
      }),
      { numRuns: 25 },
    );
  });

  it("block judges a block of one like a single token", () => {
    fc.assert(
      fc.property(pair, ([p, q]) => {
        for (const x of p.keys()) {
          const [step] = blockSteps(chain([x], [q]), [p, p]);
          if (mass(q, x) > 0) expect(step?.acceptance).toBeCloseTo(acceptance(p, q, x), 12);
        }
      }),
    );
  });

  it("finds a verifier that is wrong", () => {
    const wrong: Verifier = (proposal, p, draws) => {
      const verdict = rejection(proposal, p, draws);
      if (verdict.kind === "bonus") return verdict;
      return { ...verdict, token: draws.draw(at(p, verdict.path.length)) };
    };
    const [p, q] = [turning([0.6, 0.3, 0.1]), turning([0.2, 0.3, 0.5])];
    const limits = { end: null, maxTokens: 2 };
    expect(distance(sequenceLaw(wrong, p, q, 2, limits), plainLaw(p, limits))).toBeGreaterThan(0.05);
  });

  it("coupled: the text is a function of the luck, whatever the drafter", () => {
    fc.assert(
      fc.property(pair, fc.nat(), ([p, q], seed) => {
        const random = new Random(seed, "luck");
        const noise = [random.exponentials(p.length), random.exponentials(p.length)];
        const draws = {
          accept: () => false,
          draw: () => 0,
          race: (law: Law, path: readonly number[]) => race(law, at(noise, path.length)),
        };
        const text = playRound(
          coupled,
          () => p,
          () => q,
          1,
          [],
          { ...draws, draw: (law) => race(law, at(noise, 0)) },
        );
        const plain = noise.map((e) => race(p, e));
        expect(text).toEqual(plain.slice(0, text.length));
      }),
    );
  });

  it("agreement lies between (1 − TV)/(1 + TV) and 1 − TV", () => {
    fc.assert(
      fc.property(pair, ([p, q]) => {
        const tv = totalVariation(p, q);
        const found = agreement(p, q);
        expect(found).toBeLessThanOrEqual(1 - tv + 1e-12);
        expect(found).toBeGreaterThanOrEqual((1 - tv) / (1 + tv) - 1e-12);
      }),
    );
  });

  it("agreement is how often two races with one luck agree", () => {
    const [p, q] = [
      [0.6, 0.3, 0.1],
      [0.2, 0.3, 0.5],
    ];
    const random = new Random(1, "agreement");
    let same = 0;
    for (let i = 0; i < 20_000; i++) {
      const noise = random.exponentials(3);
      same += Number(race(p, noise) === race(q, noise));
    }
    const a = agreement(p, q);
    expect(chiSquare([same, 20_000 - same], [a, 1 - a]).p).toBeGreaterThan(1e-4);
  });
});

describe("speed", () => {
  it("expected tokens in closed form, between 1 and γ + 1", () => {
    fc.assert(
      fc.property(unit, fc.integer({ min: 0, max: 20 }), (alpha, gamma) => {
        const found = expectedTokens(alpha, gamma);
        expect(found * (1 - alpha)).toBeCloseTo(1 - alpha ** (gamma + 1), 10);
        expect(found).toBeGreaterThanOrEqual(1);
        expect(found).toBeLessThanOrEqual(gamma + 1);
      }),
    );
    expect(expectedTokens(1, 4)).toBe(5);
  });

  it("is never better at another γ than at the best", () => {
    fc.assert(
      fc.property(unit, unit, fc.nat(12), (alpha, c, gamma) => {
        const best = bestGamma(alpha, c, 12);
        expect(speedup(alpha, best, c)).toBeGreaterThanOrEqual(speedup(alpha, gamma, c));
        expect(speedup(alpha, best, c)).toBeGreaterThanOrEqual(1);
      }),
    );
    expect(speedup(0.1, 8, 0.5)).toBeLessThan(1);
  });
});

describe("statistics", () => {
  it("the band holds the right rule, and the test finds the wrong", () => {
    const [p, q] = [
      [0.5, 0.3, 0.2],
      [0.2, 0.3, 0.5],
    ];
    for (const rule of RULES) {
      const random = new Random(3, `tally ${rule}`);
      const counts = p.map(() => 0);
      for (let i = 0; i < 20_000; i++) counts[emit(rule, p, q, random).token]! += 1;
      expect(chiSquare(counts, ruleLaw(rule, p, q)).p).toBeGreaterThan(1e-4);
      expect(within(counts, band(p, 20_000, 0.999))).toBe(rule === "right");
      if (rule !== "right") expect(chiSquare(counts, p).p).toBeLessThan(1e-9);
    }
  });

  it("a count where the law has nothing decides alone", () => {
    expect(chiSquare([5, 1], [1, 0]).p).toBe(0);
    expect(chiSquare([5, 0], [1, 0]).p).toBe(1);
    expect(chiSquare([0, 0], [0.5, 0.5]).p).toBe(1);
    expect(within([5, 1], band([1, 0], 6))).toBe(false);
  });

  it("p-values of right tallies are uniform", () => {
    const law = [0.4, 0.35, 0.25];
    const bins = [0, 0, 0, 0, 0];
    for (let run = 0; run < 500; run++) {
      const random = new Random(run, "uniformity");
      const counts = [0, 0, 0];
      for (let i = 0; i < 300; i++) counts[random.draw(law)]! += 1;
      bins[Math.min(Math.floor(chiSquare(counts, law).p * 5), 4)]! += 1;
    }
    expect(
      chiSquare(
        bins,
        bins.map(() => 0.2),
      ).p,
    ).toBeGreaterThan(1e-4);
  });

  it("quantile and distribution function are inverse", () => {
    fc.assert(
      fc.property(unit, fc.integer({ min: 1, max: 2000 }), unit, (level, n, p) => {
        const k = binomialQuantile(level, n, p);
        expect(binomialCdf(k, n, p)).toBeGreaterThanOrEqual(level);
        expect(binomialCdf(k - 1, n, p)).toBeLessThan(level);
      }),
    );
  });
});

describe("random", () => {
  it("is Philox4x32-10: the known answers of its authors", () => {
    expect(philox([0, 0, 0, 0], [0, 0])).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    const ones = 0xffffffff;
    expect(philox([ones, ones, ones, ones], [ones, ones])).toEqual([0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
    expect(philox([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0])).toEqual([
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1,
    ]);
  });

  it("is a function of seed, stream and index", () => {
    const random = new Random(7, "a");
    const first = [random.uniform(), random.uniform(), random.uniform()];
    expect(first).toEqual([0, 1, 2].map((i) => uniformAt(7, "a", i)));
    expect(uniformAt(8, "a", 0)).not.toBe(first[0]);
    expect(uniformAt(7, "b", 0)).not.toBe(first[0]);
    expect(uniformAt(7 + 2 ** 32, "a", 0)).not.toBe(first[0]);
  });

  it("is uniform", () => {
    const random = new Random(1, "uniform");
    const bins = Array.from({ length: 20 }, () => 0);
    for (let i = 0; i < 20_000; i++) bins[Math.floor(random.uniform() * 20)]! += 1;
    expect(
      chiSquare(
        bins,
        bins.map(() => 1 / 20),
      ).p,
    ).toBeGreaterThan(1e-4);
  });
});
