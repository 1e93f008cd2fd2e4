import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { imagined, interpolated, milliseconds, passCost, RECORDED } from "./costs";
import { bestGamma, speedup } from "./speed";

describe("cost curves", () => {
  it("are recorded for up to 16 rows, and do not fall", () => {
    for (const curve of RECORDED) {
      expect(curve.pass).toHaveLength(16);
      expect([...curve.pass].sort((a, b) => a - b)).toEqual(curve.pass);
      expect(curve.here).toBe(false);
    }
  });

  it("count in plain passes, and go on beyond what was measured", () => {
    for (const curve of RECORDED) {
      const pass = passCost(curve);
      expect(pass(1)).toBe(1);
      const step = milliseconds(curve, 16) - milliseconds(curve, 15);
      expect(milliseconds(curve, 20)).toBeCloseTo(milliseconds(curve, 16) + 4 * step, 9);
    }
  });

  it("pass through what was measured, with straight lines between", () => {
    expect(interpolated([1, 2, 4], [10, 20, 24])).toEqual([10, 20, 22, 24]);
    expect(interpolated([1], [5])).toEqual([5]);
  });

  it("on a full machine never pay", () => {
    const full = passCost(imagined("full", RECORDED[0]!));
    fc.assert(
      fc.property(fc.double({ min: 0, max: 0.99, noNaN: true }), fc.integer({ min: 1, max: 15 }), (alpha, gamma) => {
        expect(speedup(alpha, gamma, 0, full)).toBeLessThanOrEqual(1 + 1e-12);
      }),
    );
    expect(bestGamma(0.9, 0, 15, full)).toBe(0);
  });

  it("of the ideal machine are all one pass", () => {
    const flat = imagined("flat", RECORDED[1]!);
    expect(new Set(flat.pass)).toEqual(new Set([52]));
  });
});
