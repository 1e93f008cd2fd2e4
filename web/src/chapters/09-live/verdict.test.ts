import { expect, test } from "vitest";
import type { Drafted, Round } from "../../trace/trace";
import { bars, final, quoted, reason, telling, visible } from "./verdict";

const guess = (changes: Partial<Drafted>): Drafted => ({ token: 1, parent: -1, p: 0.5, q: 0.5, accepted: false, ...changes });
const round = (changes: Partial<Round>): Round => ({
  request: 0,
  index: 0,
  position: 0,
  verifier: "rejection",
  drafted: [],
  tokens: [2],
  kinds: ["bonus"],
  times: { draft: 0, target: 0, verify: 0 },
  ...changes,
});

test("why a guess stayed or went", () => {
  const kept = guess({ accepted: true, acceptance: 0.5, coin: 0.2 });
  const dropped = guess({ acceptance: 0.5, coin: 0.7 });
  const of = (...drafted: Drafted[]): string[] => drafted.map((_, node) => reason(round({ drafted }), node));
  expect(of(kept, dropped, guess({}))).toEqual(["coin", "coin", "unjudged"]);
  expect(of(guess({ accepted: true, acceptance: 0.1, coin: 0.9 }), kept)).toEqual(["keptAnyway", "coin"]);
  expect(of(guess({ accepted: true, acceptance: 0.1 }), guess({ acceptance: 0.1 }))).toEqual(["chosen", "notChosen"]);
  const ended = round({ drafted: [kept, guess({ acceptance: 1, coin: 0.5 })], tokens: [1], kinds: ["accepted"] });
  expect(reason(ended, 1)).toBe("cut");
});

test("the last token, where it is no guess", () => {
  expect(final(round({}))).toEqual({ token: 2, kind: "bonus" });
  expect(final(round({ tokens: [1, 3], kinds: ["accepted", "residual"] }))).toEqual({ token: 3, kind: "residual" });
  expect(final(round({ tokens: [1], kinds: ["accepted"] }))).toBeUndefined();
});

test("two laws side by side, the guess among them", () => {
  const own = guess({ token: 9, p: 0.01, q: 0.02 });
  const found = bars([[1, 0.5], [2, 0.3], [3, 0.1]], [[2, 0.6], [4, 0.2]], own, 4); // prettier-ignore
  expect(found).toEqual([
    { token: 2, p: { value: 0.3 }, q: { value: 0.6 } },
    { token: 1, p: { value: 0.5 }, q: { value: 0.2, below: true } },
    { token: 4, p: { value: 0.1, below: true }, q: { value: 0.2 } },
    { token: 9, p: { value: 0.01 }, q: { value: 0.02 } },
  ]);
  expect(bars([[1, 0.5]], undefined, own, 4).every(({ q }) => q === undefined)).toBe(true);
});

test("tokens for labels", () => {
  expect([" a", "\n "].map(quoted)).toEqual(["a", "↵"]);
  expect([" a", "\n\n", "  ", "\t"].map(visible)).toEqual([" a", "↵↵", "␣␣", "⇥"]);
});

test("it begins where there is most to see", () => {
  expect(telling([round({}), round({ tokens: [1, 3], kinds: ["accepted", "residual"] })])).toBe(1);
  expect(telling([round({})])).toBe(0);
});
