import fc from "fast-check";
import { expect, it } from "vitest";
import { mass, normalised } from "../../../core/law";
import { pour } from "./laws";

const law = fc.array(fc.double({ min: 0.01, max: 1, noNaN: true }), { minLength: 3, maxLength: 3 }).map(normalised);

it("what is kept and what is poured make the law, right or wrong", () => {
  fc.assert(
    fc.property(law, law, fc.boolean(), (p, q, wrong) => {
      const found = pour(p, q, wrong);
      for (const x of p.keys()) {
        expect(mass(found.kept, x) + mass(found.poured, x)).toBeCloseTo(mass(found.law, x), 10);
      }
    }),
  );
});

it("the right law fills every gap; the wrong one misses by β·p − [p − q]+, in sum by nothing", () => {
  fc.assert(
    fc.property(law, law, (p, q) => {
      for (const m of pour(p, q, false).miss) expect(m).toBeCloseTo(0, 10);
      const { miss, beta, missing } = pour(p, q, true);
      for (const x of p.keys()) expect(mass(miss, x)).toBeCloseTo(beta * mass(p, x) - mass(missing, x), 10);
      expect(miss.reduce((s, m) => s + m, 0)).toBeCloseTo(0, 10);
    }),
  );
});

it("misses by what the chapter says, where it begins", () => {
  const { miss } = pour([0.5, 0.3, 0.2], [0.2, 0.2, 0.6], true);
  for (const [x, m] of [-0.1, 0.02, 0.08].entries()) expect(mass(miss, x)).toBeCloseTo(m, 12);
});
