import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linear } from "./scale";

describe("a linear scale", () => {
  it("maps ends to ends, and the middle to the middle", () => {
    const x = linear([2, 6], [100, 0]);
    expect([x(2), x(4), x(6)]).toEqual([100, 50, 0]);
    expect(linear([3, 3], [7, 9])(3)).toBe(7);
  });

  it("has round ticks", () => {
    expect(linear([0, 1], [0, 1]).ticks(5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(linear([0, 15], [0, 1]).ticks(6)).toEqual([0, 2, 4, 6, 8, 10, 12, 14]);
    expect(linear([0, 58.5], [0, 1]).ticks(4)).toEqual([0, 20, 40]);
  });

  it("keeps ticks within the domain, about as many as asked for", () => {
    fc.assert(
      fc.property(fc.double({ min: -1e3, max: 1e3, noNaN: true }), fc.double({ min: 1e-3, max: 1e4, noNaN: true }), fc.integer({ min: 2, max: 10 }), (from, size, count) => {
        const ticks = linear([from, from + size], [0, 1]).ticks(count);
        expect(ticks.length).toBeGreaterThanOrEqual(Math.floor(count / 2));
        expect(ticks.length).toBeLessThanOrEqual(2 * count + 1);
        for (const tick of ticks) {
          expect(tick).toBeGreaterThanOrEqual(from - 1e-6 * size);
          expect(tick).toBeLessThanOrEqual(from + size * (1 + 1e-6));
        }
      }),
    );
  });
});
