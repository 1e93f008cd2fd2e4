/** One schema with the Python side: what it writes is read, and written again the same. */

import { expect, test } from "vitest";
import vectors from "../../vectors/traces.json";
import { stats } from "./fold";
import { readRound, SCHEMA, writeRound, type Round } from "./trace";

const KNOWN: Readonly<Record<keyof Round, true>> = {
  drafted: true,
  drafter: true,
  expected: true,
  head: true,
  index: true,
  kinds: true,
  logprobs: true,
  position: true,
  request: true,
  times: true,
  tokens: true,
  verifier: true,
};

test("the schema is the library's, field for field", () => {
  expect(vectors.schema).toBe(SCHEMA);
  expect(Object.keys(KNOWN).toSorted()).toEqual(vectors.fields);
});

test.each(vectors.runs)("$name", ({ rounds, stats: recorded }) => {
  const read = rounds.map((round) => readRound(round));
  expect(read.map(writeRound)).toEqual(rounds);
  const { seconds, ...found } = stats(read);
  expect(found).toEqual(recorded);
  expect(seconds).toBeCloseTo(0.0215 * rounds.length, 9);
});

test("every optional field occurs in the vectors", () => {
  const seen = new Set(vectors.runs.flatMap(({ rounds }) => rounds.flatMap((round) => Object.keys(round))));
  expect([...seen].filter((name) => name !== "schema").toSorted()).toEqual(vectors.fields);
});

const good = vectors.runs[0]?.rounds[0] as Record<string, unknown>;
test.each<[string, (round: Record<string, unknown>) => unknown, string]>([
  ["no object", () => [], "round must be an object, not []"],
  ["another schema", (r) => ({ ...r, schema: SCHEMA + 1 }), `round.schema must be one of 1, 2, 3, 4, not ${SCHEMA + 1}`],
  ["a missing field", ({ tokens: _, ...r }) => r, "round lacks tokens"],
  ["an unknown field", (r) => ({ ...r, what: 1 }), "round has an unknown field: what"],
  ["a kind of its own", (r) => ({ ...r, kinds: ["lucky"] }), "round.kinds[0] must be one of accepted, residual, bonus"],
  ["a broken draft", (r) => ({ ...r, drafted: [{}] }), "round.drafted[0] lacks token"],
  ["no number", (r) => ({ ...r, times: { draft: 0, target: "1", verify: 0 } }), 'round.times.target must be a number, not "1"'],
])("%s is refused, saying where", (_, change, said) => {
  expect(() => readRound(change(good))).toThrow(said);
});

test.each([1, 2, 3])("schema %i is still read", (schema) => {
  expect(readRound({ ...good, schema })).toEqual(readRound(good));
});
