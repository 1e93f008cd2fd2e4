import fc from "fast-check";
import { expect, it } from "vitest";
import { kept, leak, totalVariation } from "../../../core/acceptance";
import { mass, normalised } from "../../../core/law";
import { flows } from "./flows";

const law = fc.array(fc.double({ min: 0.01, max: 1, noNaN: true }), { minLength: 3, maxLength: 3 }).map(normalised);

it("moves exactly what was let go into exactly what was missing", () => {
  fc.assert(
    fc.property(law, law, (p, q) => {
      const found = flows(p, q);
      for (const x of p.keys()) {
        const sum = (end: "from" | "to"): number =>
          found.filter((flow) => flow[end] === x).reduce((s, flow) => s + flow.amount, 0);
        expect(sum("from")).toBeCloseTo(mass(leak(q, p), x), 10);
        expect(sum("to")).toBeCloseTo(mass(leak(p, q), x), 10);
        expect(mass(kept(p, q), x) + sum("to")).toBeCloseTo(mass(p, x), 10);
      }
    }),
  );
});

it("stacks blocks without gaps, and moves nothing where the laws are the same", () => {
  expect(flows([0.6, 0.4], [0.6, 0.4])).toEqual([]);
  const [p, q] = [
    [0.5, 0.3, 0.2],
    [0.2, 0.2, 0.6],
  ];
  const found = flows(p, q);
  expect(found).toHaveLength(2);
  expect(found[0]).toMatchObject({ from: 2, to: 0, low: 0.2, newLow: 0.2 });
  expect(found[1]?.low).toBeCloseTo(0.5, 12);
  expect(totalVariation(p, q)).toBeCloseTo(0.4, 12);
});
