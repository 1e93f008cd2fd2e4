import fc from "fast-check";
import { expect, it } from "vitest";
import { normalised, total } from "../core/law";
import { byKey, hundredths, tidy } from "./drag";

it("keeps a tidied law a law", () => {
  const weights = fc.array(fc.double({ min: 0.001, max: 1, noNaN: true }), { minLength: 2, maxLength: 5 });
  fc.assert(
    fc.property(weights, (w) => {
      const found = tidy(normalised(w));
      expect(total(found)).toBeCloseTo(1, 10);
      expect(found.every((m) => m >= 0 && m === Number(m.toFixed(4)))).toBe(true);
    }),
  );
});

it("moves by hundredths and stays between 0 and 1", () => {
  const key = (name: string, shiftKey = false): number | undefined =>
    byKey({ key: name, shiftKey } as KeyboardEvent, 0.5);
  expect(key("ArrowUp")).toBeCloseTo(0.51);
  expect(key("ArrowLeft", true)).toBeCloseTo(0.4);
  expect(key("End")).toBe(1);
  expect(key("Tab")).toBeUndefined();
  expect([hundredths(-0.2), hundredths(0.333), hundredths(7)]).toEqual([0, 0.33, 1]);
});
