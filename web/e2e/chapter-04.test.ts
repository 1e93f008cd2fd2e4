/** Chapter 4: the chance to be kept is min(1, p/q), the coins say so, and min(q, p) arrives. */

import type { Locator } from "playwright-core";
import { expect, figure, number, setSlider, table, test } from "./page.ts";

async function row(of: Locator): Promise<number[]> {
  return ((await table(of)).rows[0] ?? []).map(number);
}

test("coins keep a word in the fair fraction", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "accept" });
  const coin = figure(tab, "accept", 0);
  for (let i = 0; i < 20; i++) await coin.getByRole("button", { name: "Toss 100" }).click();
  for (const [p, q] of [
    [0.4, 0.8],
    [0.4, 0.5],
    [0.1, 0.9],
  ] as const) {
    await setSlider(coin, "p(hate), target", p);
    await setSlider(coin, "q(hate), draft", q);
    const [, , , a = NaN, n = NaN, kept = NaN, share = NaN] = await row(coin);
    expect(a).toBeCloseTo(p / q, 3);
    expect(n).toBe(2100);
    expect(share).toBeCloseTo(kept / n, 3);
    expect(Math.abs(share - a)).toBeLessThan(4 * Math.sqrt((a * (1 - a)) / n));
  }
});

test("what is said too seldom is always kept, and what the target never says never", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "accept" });
  const coin = figure(tab, "accept", 0);
  await setSlider(coin, "q(hate), draft", 0.3);
  expect((await row(coin)).slice(3, 7)).toEqual([1, 100, 100, 1]);
  await setSlider(coin, "p(hate), target", 0);
  expect((await row(coin)).slice(3, 7)).toEqual([0, 100, 0, 0]);
  await coin.getByLabel("love", { exact: true }).check();
  expect((await row(coin))[1]).toBe(1);
});

test("however often it is said, min(q, p) arrives; the point on the curve moves by keys", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "accept" });
  const curve = figure(tab, "accept", 1);
  const { rows } = await table(curve);
  for (const [q = NaN, keeps = NaN, arrives = NaN] of rows.map((each) => each.map(number))) {
    expect(q * keeps).toBeCloseTo(arrives, 3);
    expect(arrives).toBeCloseTo(Math.min(q, 0.4), 4);
  }
  await curve.locator("svg").getByRole("slider").focus();
  for (let i = 0; i < 4; i++) await tab.keyboard.press("PageDown");
  await curve.getByText("At q = 0.40: kept with 1.00, so 0.40 × 1.00 = 0.40 arrives; wanted 0.40.").first().waitFor();
});
