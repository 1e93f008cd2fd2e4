import { describe, expect, it } from "vitest";
import { curveOf, pointOf } from "./machine";

const seconds = Array.from({ length: 64 }, (_, i) => 0.002 + 0.001 * i);
const setup = (target_seconds: readonly number[]) => ({
  model: "m",
  processor: "two cores",
  costs: { target_seconds, draft_seconds: { model: [0.0005, 0.0006] } },
});

describe("the reader's machine", () => {
  it("has a curve in milliseconds, and a draft's cost in plain passes", () => {
    const curve = curveOf(setup(seconds));
    expect(curve).toMatchObject({ here: true, model: "m", machine: "two cores", draft: 0.25 });
    expect(curve?.pass).toHaveLength(16);
    expect(curve?.pass[1]).toBeCloseTo(3, 9);
  });

  it("has none where nothing, too little, or nonsense was measured", () => {
    expect(curveOf(undefined)).toBeNull();
    expect(curveOf({ model: "m", processor: "", costs: null })).toBeNull();
    expect(curveOf(setup(seconds.slice(0, 9)))).toBeNull();
    expect(curveOf(setup(seconds.map(() => 0)))).toBeNull();
  });

  it("marks a run by what was judged, drafted and won", () => {
    const run = { rounds: 10, tokens: 30, drafted: 40, accepted: 20, corrected: 5, bonus: 5, seconds: 0.03, tokensPerPass: 3 };
    expect(pointOf(run, curveOf(setup(seconds)))).toEqual({ alpha: 0.8, gamma: 4, speedup: 2 });
    expect(pointOf(run, null)).toBeNull();
    expect(pointOf({ ...run, accepted: 0, corrected: 0 }, curveOf(setup(seconds)))).toBeNull();
  });
});
