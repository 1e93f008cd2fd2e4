import { expect, test } from "vitest";
import { fixed, integer, percent, pValue, short } from "./number";

test("numbers as the page writes them", () => {
  expect([fixed(0.255, 2), fixed(-1, 1), fixed(-0.001, 2)]).toEqual(["0.26", "−1.0", "0.00"]);
  expect([short(0.5), short(1 / 3), short(2)]).toEqual(["0.5", "0.333", "2"]);
  expect([integer(100000), integer(-1234.4)]).toEqual(["100,000", "−1,234"]);
  expect([percent(0.253), percent(0.253, 1)]).toEqual(["25%", "25.3%"]);
  expect([pValue(0.314), pValue(0.0042), pValue(1e-9)]).toEqual(["0.31", "0.0042", "< 0.0001"]);
  expect([fixed(NaN), fixed(Infinity)]).toEqual(["–", "∞"]);
});
