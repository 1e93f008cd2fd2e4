import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { finish, followers, past, run } from "./race";
import { en } from "./en";
import { zh } from "./zh";

const word = fc.constantFrom("a", "b", "c", "d", "e");
const text = fc.array(word, { minLength: 2, maxLength: 60 });
const flat = { pass: () => 1, guess: 0 };

describe("the race", () => {
  it("writes the same text whatever is drafted", () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 0, max: 9 }), (words, gamma) => {
        const events = run(words, gamma, flat);
        expect([words[0], ...events.flatMap((e) => e.words)]).toEqual(words);
      }),
    );
  });

  it("never takes more passes than words, and never drafts past the end", () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 0, max: 9 }), (words, gamma) => {
        const events = run(words, gamma, flat);
        expect(events.length).toBeLessThanOrEqual(words.length - 1);
        for (const e of events) expect(e.words).toHaveLength(e.accepted + 1);
        expect(finish(events)).toBe(events.length);
      }),
    );
  });

  it("is plain decoding without drafts", () => {
    const events = run(["a", "b", "a", "c"], 0, { pass: (n) => 2 * n, guess: 9 });
    expect(events.map((e) => e.end)).toEqual([2, 4, 6]);
    expect(events.every((e) => e.kinds[0] === "bonus")).toBe(true);
  });

  it("keeps guesses up to the first difference", () => {
    // after "a" comes "b" twice and "c" once
    const events = run(["a", "b", "a", "b", "a", "c"], 3, { pass: () => 1, guess: 0.5 });
    expect(events[0]).toMatchObject({ drafted: ["b", "a", "b"], accepted: 3, pass: 1.5, end: 2.5 });
    expect(events[0]!.kinds).toEqual(["accepted", "accepted", "accepted", "bonus"]);
    expect(events[1]).toMatchObject({ drafted: [], accepted: 0, words: ["c"] });
  });

  it("knows what is over at a time", () => {
    const events = run(["a", "b", "c", "d"], 0, flat);
    expect(past(events, 0)).toHaveLength(0);
    expect(past(events, 2)).toHaveLength(2);
    expect(past(events, 99)).toHaveLength(3);
  });

  it("counts followers, the earliest of equals", () => {
    const found = followers(["a", "b", "a", "c", "a", "c", "d"]);
    expect(found.get("a")).toBe("c");
    expect(found.get("b")).toBe("a");
    expect(found.has("d")).toBe(false);
  });

  it.each([["en", en.text], ["zh", zh.text]])("teaches something in %s", (_, words) => {
    const costs = { pass: () => 1, guess: 0.1 };
    const [plain, ahead] = [run(words, 0, costs), run(words, 4, costs)];
    expect(ahead.length).toBeLessThan(0.6 * plain.length);
    expect(ahead.some((e) => e.kinds.at(-1) === "residual")).toBe(true);
    expect(ahead.some((e) => e.kinds.at(-1) === "bonus" && e.accepted === 4)).toBe(true);
  });
});
