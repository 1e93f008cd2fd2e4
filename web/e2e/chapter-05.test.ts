/** Chapter 5: the residual fills every gap; resampling from p misses by what the page foretells. */

import { expect, figure, number, table, test } from "./page.ts";

interface Row {
  p: number;
  q: number;
  kept: number;
  missing: number;
  poured: number;
  law: number;
  miss: number;
  share: number;
  low: number;
  high: number;
}

function read(rows: string[][]): Row[] {
  return rows.map((row) => {
    const [p = NaN, q = NaN, kept = NaN, missing = NaN, poured = NaN, law = NaN, miss = NaN, share = NaN, low = NaN, high = NaN] =
      row.slice(1).map(number);
    return { p, q, kept, missing, poured, law, miss, share, low, high };
  });
}

test("right and wrong rule, on paper and in 20,000 samples", async ({ open }) => {
  for (const search of ["", "p3=0.2,0.5,0.3&q3=0.6,0.3,0.1"]) {
    const tab = await open({ lang: "en", chapter: "residual", search });
    const pour = figure(tab, "residual", 0);
    await pour.getByText("20,000 samples gave").first().waitFor();
    for (const row of read((await table(pour)).rows)) {
      expect(row.poured).toBeCloseTo(row.missing, 3);
      expect(row.kept + row.poured).toBeCloseTo(row.p, 3);
      expect(row.miss).toBe(0);
      expect(row.share).toBeGreaterThanOrEqual(row.low);
      expect(row.share).toBeLessThanOrEqual(row.high);
    }
    await pour.getByLabel("Wrong rule: resample from p").check();
    await pour.getByText("20,000 samples gave").first().waitFor();
    const rows = read((await table(pour)).rows);
    const beta = rows.reduce((sum, row) => sum + row.missing, 0);
    for (const row of rows) {
      expect(row.miss).toBeCloseTo(beta * row.p - row.missing, 3);
      expect(row.law - row.p).toBeCloseTo(row.miss, 3);
      expect(row.share).toBeGreaterThanOrEqual(row.low);
      expect(row.share).toBeLessThanOrEqual(row.high);
    }
    // the samples too: the bar that misses most is seen to miss, in the direction foretold
    const worst = rows.reduce((a, b) => (Math.abs(b.miss) > Math.abs(a.miss) ? b : a));
    expect((worst.share - worst.p) / worst.miss).toBeGreaterThan(0.8);
    expect((worst.share - worst.p) / worst.miss).toBeLessThan(1.2);
  }
});

test("levels can be dragged in the picture, and the right rule still meets them", async ({ open }) => {
  const tab = await open({ lang: "zh", chapter: "residual" });
  const pour = figure(tab, "residual", 0);
  await pour.locator("svg").getByRole("slider", { name: "q(无感)，草稿" }).focus();
  for (let i = 0; i < 3; i++) await tab.keyboard.press("PageUp");
  await expect.poll(() => tab.url()).toContain("q3=0.125,0.5,0.375");
  const rows = read((await table(pour)).rows);
  for (const row of rows) expect(row.law).toBeCloseTo(row.p, 4);
  expect(rows.reduce((sum, row) => sum + row.q, 0)).toBeCloseTo(1, 3);
});
