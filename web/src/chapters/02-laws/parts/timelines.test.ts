import { expect, it } from "vitest";
import { totalVariation } from "../../../core/acceptance";
import { mass } from "../../../core/law";
import { chiSquare } from "../../../core/statistics";
import { counted, DRAFT, erase, HATE, judged, LOVE, P, Q, score, START, TARGET } from "./timelines";

it("has the laws it shows", () => {
  for (const word of [LOVE, HATE]) {
    expect(TARGET.filter((w) => w === word).length / 5).toBe(mass(P, word));
    expect(DRAFT.filter((w) => w === word).length / 5).toBe(mass(Q, word));
  }
});

it("erasing by hand comes to three loves for every seed", () => {
  for (let seed = 0; seed < 50; seed++) {
    let timelines = [...START];
    for (let tries = 0; !score(timelines).done; tries++) {
      expect(tries).toBeLessThan(100);
      const word = score(timelines).loves < 3 ? HATE : LOVE;
      timelines = erase(timelines, timelines.findIndex((words) => words.at(-1) === word), seed);
    }
    const { kept, erased, loves } = score(timelines);
    expect(loves).toBe(3);
    expect(kept + erased).toBeGreaterThanOrEqual(5);
  }
});

it("the rule keeps love always, hate half the time, and writes the target's law", () => {
  const all = Array.from({ length: 4000 }, (_, i) => judged(P, Q, 1, i));
  expect(all.every((one) => one.drafted !== LOVE || one.kept)).toBe(true);
  expect(all.every((one) => one.chance === (one.drafted === LOVE ? 1 : 0.5))).toBe(true);
  const { counts, kept } = counted(P, Q, 1, 4000);
  expect(chiSquare(counts, P).p).toBeGreaterThan(1e-3);
  expect(chiSquare([kept, 4000 - kept], [0.6, 0.4]).p).toBeGreaterThan(1e-3);
});

it("the rule writes any other target's law too", () => {
  for (const [p, q] of [[[0.35, 0.65], [0.7, 0.3]], [[1, 0], [0.5, 0.5]], [[0.2, 0.8], [0.2, 0.8]]] as const) {
    const { counts, kept } = counted(p, q, 1, 4000);
    expect(chiSquare(counts, p).p).toBeGreaterThan(1e-3);
    const keeps = 1 - totalVariation(p, q);
    expect(chiSquare([kept, 4000 - kept], [keeps, 1 - keeps]).p).toBeGreaterThan(1e-3);
  }
});
