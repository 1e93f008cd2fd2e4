/** Laws for property tests: any, with zeros among them. */

import fc from "fast-check";
import { normalised } from "./law";

export const weights = (size: number) =>
  fc
    .array(fc.oneof(fc.constant(0), fc.double({ min: 0.01, max: 1, noNaN: true })), {
      minLength: size,
      maxLength: size,
    })
    .filter((w) => w.some((m) => m > 0))
    .map(normalised);
