/**
 * The core against the library: the vectors in web/vectors are what the Python code computes
 * (tests/play/record_vectors.py; a Python test keeps them current).
 */

import { describe, expect, it } from "vitest";

import acceptanceCases from "../../vectors/acceptance.json";
import expectedCases from "../../vectors/expected.json";
import raceCases from "../../vectors/races.json";
import roundCases from "../../vectors/rounds.json";
import sequenceCases from "../../vectors/sequences.json";
import statisticsCases from "../../vectors/statistics.json";
import treeCases from "../../vectors/trees.json";
import verdictCases from "../../vectors/verdicts.json";
import { acceptance, excess, residual, totalVariation } from "./acceptance";
import { block } from "./block";
import { coupled, race } from "./coupled";
import type { Draws } from "./draws";
import { roundLaw, sequenceLaw, type NextLaw, type Verifier } from "./enumerate";
import { recursive } from "./recursive";
import { rejection } from "./rejection";
import { argmax, type Law } from "./law";
import { at, chain, type Verdict } from "./round";
import { expectedTokens } from "./speed";
import { binomialQuantile, chiSquare } from "./statistics";

const VERIFIERS: Record<string, Verifier> = { rejection, block };

function verifierOf(name: string): Verifier {
  const found = VERIFIERS[name];
  if (found === undefined) throw new RangeError(`no verifier ${name}`);
  return found;
}

function close(found: Law, recorded: Law): void {
  expect(found).toHaveLength(recorded.length);
  for (const [i, value] of found.entries()) expect(value).toBeCloseTo(at(recorded, i), 12);
}

function sameLaw(found: Map<string, number>, recorded: Record<string, number | undefined>): void {
  for (const key of new Set([...found.keys(), ...Object.keys(recorded)])) {
    expect(found.get(key) ?? 0, key).toBeCloseTo(recorded[key] ?? 0, 12);
  }
}

function sameVerdict(found: Verdict, wanted: Omit<Verdict, "kind"> & { readonly kind: string }): void {
  expect(found.path).toEqual(wanted.path);
  expect(found.token).toBe(wanted.token);
  expect(found.kind).toBe(wanted.kind);
  close(found.law, wanted.law);
  for (const [i, a] of wanted.acceptance.entries()) {
    if (a === null) expect(found.acceptance[i]).toBeNull();
    else expect(found.acceptance[i]).toBeCloseTo(a, 12);
  }
}

function tableOf(laws: unknown, name: "p" | "q"): NextLaw {
  const table = laws as Record<string, Record<"p" | "q", number[]> | undefined>;
  return (prefix) => {
    const found = table[prefix.join()];
    if (found === undefined) throw new RangeError(`no laws after ${prefix.join()}`);
    return found[name];
  };
}

/** Draws that were recorded: coins by node, the likeliest token, the noise of each position. */
function recorded(coins: readonly number[], noise: readonly Law[] = []): Draws {
  return {
    accept: (a, node) => at(coins, node) < a,
    draw: argmax,
    race: (law, path) => race(law, at(noise, path.length)),
  };
}

describe("the core computes what the library computes", () => {
  it("acceptance, residual, excess and total variation", () => {
    for (const c of acceptanceCases) {
      expect(acceptance(c.p, c.q, c.token)).toBeCloseTo(c.acceptance, 14);
      close(residual(c.p, c.q, c.token, c.scale), c.residual);
      expect(excess(c.p, c.q, c.token, c.scale)).toBeCloseTo(c.excess, 14);
      if (c.q !== null) expect(totalVariation(c.p, c.q)).toBeCloseTo(c.total_variation ?? NaN, 14);
    }
  });

  it.each(verdictCases)("verdicts of $tokens by given coins", (c) => {
    const q = c.tokens.map((_, i) => (c.q === null ? null : at(c.q, i)));
    for (const [name, wanted] of Object.entries(c.verdicts)) {
      sameVerdict(verifierOf(name)(chain(c.tokens, q), c.p, recorded(c.coins)), wanted);
    }
  });

  it.each(treeCases)("verdicts of trees drawn without replacement, $tokens by given coins", (c) => {
    sameVerdict(recursive(c, c.p, recorded(c.coins)), c.verdict);
  });

  it("trees, of which some are kept below a rejected sibling", () => {
    const second = treeCases.filter((c) => c.verdict.path.some((node) => c.parents.indexOf(c.parents[node] ?? 0) < node));
    expect(second.length).toBeGreaterThan(1);
  });

  it.each(raceCases)("races by given noise, $winner first", (c) => {
    expect(race(at(c.p, 0), at(c.exponentials, 0))).toBe(c.winner);
    const proposal = { tokens: c.tokens, parents: c.parents, q: c.tokens.map(() => null) };
    const found = coupled(proposal, c.p, recorded([], c.exponentials));
    expect(found).toMatchObject({
      path: c.verdict.path,
      token: c.verdict.token,
      kind: c.verdict.kind,
      acceptance: c.verdict.acceptance,
    });
  });

  it.each(roundCases)("the exact law of a round, $verifier, γ = $gamma", (c) => {
    const verifier = verifierOf(c.verifier);
    const found = roundLaw(verifier, tableOf(c.laws, "p"), tableOf(c.laws, "q"), c.gamma);
    sameLaw(found, c.law);
  });

  it.each(sequenceCases.texts)("the exact law of whole texts, $verifier", (c) => {
    const [p, q] = [tableOf(sequenceCases.laws, "p"), tableOf(sequenceCases.laws, "q")];
    const limits = { end: c.end, maxTokens: c.max_tokens };
    sameLaw(sequenceLaw(verifierOf(c.verifier), p, q, c.gamma, limits), c.law);
  });

  it.each(expectedCases)("expected tokens, α = $alpha, γ = $gamma", (c) => {
    expect(1 - totalVariation(c.p, c.q)).toBeCloseTo(c.alpha, 14);
    expect(expectedTokens(c.alpha, c.gamma)).toBeCloseTo(c.tokens, 12);
  });

  it.each(statisticsCases.chi_square)("chi-square of $counts", (c) => {
    const found = chiSquare(c.counts, c.law);
    expect(found.statistic).toBeCloseTo(c.statistic, 9);
    expect(found.p / c.p).toBeCloseTo(1, 9);
  });

  it("binomial quantiles", () => {
    for (const c of statisticsCases.quantiles) {
      expect(binomialQuantile(c.level, c.n, c.p), JSON.stringify(c)).toBe(c.k);
    }
  });
});
