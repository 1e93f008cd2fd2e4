/** Chapter 6: at 100,000 samples the right rule's bars lie in the band, and every wrong rule is found out. */

import type { Locator } from "playwright-core";
import { expect, figure, number, table, test } from "./page.ts";

const MOST = "100,000";

interface Found {
  pValue: string;
  rows: { p: number; count: number; share: number; low: number; high: number; end: number }[];
}

/** What the figure shows once all of its samples are there. */
async function found(run: Locator): Promise<Found> {
  const values = run.locator("dl dd");
  await expect.poll(() => values.nth(0).textContent()).toBe(MOST);
  const rows = (await table(run)).rows.map((row) => {
    const [p = NaN, , count = NaN, share = NaN, low = NaN, high = NaN, end = NaN] = row.slice(1).map(number);
    return { p, count, share, low, high, end };
  });
  return { pValue: (await values.nth(2).textContent()) ?? "", rows };
}

test("the right rule stays in the band, for any q", async ({ open }) => {
  for (const q5 of ["", "&q5=0.2,0.2,0.2,0.2,0.2", "&q5=0.01,0.01,0.01,0.01,0.96"]) {
    const tab = await open({ lang: "en", chapter: "convergence", search: `n=100000${q5}` });
    const { pValue, rows } = await found(figure(tab, "convergence", 0));
    expect(rows.reduce((sum, row) => sum + row.count, 0)).toBe(100_000);
    for (const row of rows) {
      expect(row.end).toBeCloseTo(row.p, 5);
      expect(row.share).toBeGreaterThanOrEqual(row.low);
      expect(row.share).toBeLessThanOrEqual(row.high);
      expect(row.high - row.low).toBeLessThan(0.01);
    }
    expect(number(pValue)).toBeGreaterThan(0.001);
  }
});

test("every wrong rule is rejected, and ends where the page says", async ({ open }) => {
  for (const rule of ["from-target", "argmax", "lenient"]) {
    const tab = await open({ lang: "zh", chapter: "convergence", search: `n=100000&rule=${rule}` });
    const run = figure(tab, "convergence", 0);
    const { pValue, rows } = await found(run);
    expect(pValue).toBe("< 0.0001");
    await run.getByText("这不是目标分布").first().waitFor();
    expect(rows.some((row) => row.share < row.low || row.share > row.high)).toBe(true);
    for (const row of rows) expect(Math.abs(row.share - row.end)).toBeLessThan(0.01);
  }
});

test("a hundred thousand samples come over many frames, and the same seed gives the same", async ({ open }) => {
  const counts: number[][] = [];
  for (let time = 0; time < 2; time++) {
    const tab = await open({ lang: "en", chapter: "convergence", search: "n=10" });
    const run = figure(tab, "convergence", 0);
    await run.getByText("Too few samples to tell").first().waitFor();
    const seen = await run.locator("dl dd").first().evaluateHandle((element) => {
      const texts = new Set<string>();
      new MutationObserver(() => texts.add(element.textContent ?? "")).observe(element, {
        characterData: true,
        childList: true,
        subtree: true,
      });
      return texts;
    });
    await run.getByLabel(MOST, { exact: true }).check();
    counts.push((await found(run)).rows.map((row) => row.count));
    expect(await seen.evaluate((texts) => texts.size)).toBeGreaterThan(3);
  }
  expect(counts[0]).toEqual(counts[1]);
});
