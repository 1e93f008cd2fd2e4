/** Chapter 3: min(q, p) + β·[p − q]₊/β = p, wherever the reader drags p and q; and whole sentences too. */

import type { Page } from "playwright-core";
import { expect, figure, number, setSlider, table, test } from "./page.ts";

/** p and q of love, after checking that the accept path and the reject path make p. */
async function proven(tab: Page): Promise<{ p: number; q: number }> {
  const { rows } = await table(figure(tab, "proof", 0));
  const numbers = rows.map((row) => row.map(number));
  const [love = [], hate = [], sum = []] = numbers;
  for (const [, p = NaN, q = NaN, kept = NaN, over = NaN, missing = NaN, both = NaN] of [love, hate]) {
    expect(kept).toBeCloseTo(Math.min(p, q), 3);
    expect(over).toBeCloseTo(Math.max(q - p, 0), 3);
    expect(missing).toBeCloseTo(Math.max(p - q, 0), 3);
    expect(both).toBeCloseTo(p, 4);
  }
  // β is what was let go, what is missing, and the total variation distance
  const tv = (Math.abs((love[1] ?? 0) - (love[2] ?? 0)) + Math.abs((hate[1] ?? 0) - (hate[2] ?? 0))) / 2;
  expect(sum[4]).toBeCloseTo(tv, 3);
  expect(sum[5]).toBeCloseTo(tv, 3);
  expect(sum[6]).toBeCloseTo(1, 4);
  return { p: love[1] ?? NaN, q: love[2] ?? NaN };
}

test("both paths sum to p, for any p and q in the address", async ({ open }) => {
  for (const search of ["", "p=0.3,0.7&q=0.9,0.1", "p=1,0&q=0.5,0.5", "p=0.5,0.5&q=0.5,0.5", "p=0,1&q=1,0"]) {
    await proven(await open({ lang: "en", chapter: "proof", search }));
  }
});

test("levels move by pointer, by keys and by number, and all say the same", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "proof", search: "q=0.2,0.8", reducedMotion: true });
  const proof = figure(tab, "proof", 0);
  const level = proof.locator("svg").getByRole("slider", { name: "q(love), draft" });

  await level.focus();
  for (let i = 0; i < 5; i++) await tab.keyboard.press("ArrowUp");
  expect((await proven(tab)).q).toBeCloseTo(0.25, 4);

  await level.scrollIntoViewIfNeeded();
  const box = await level.boundingBox();
  if (box === null) throw new Error("the level is not to be seen");
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await tab.mouse.move(x, y);
  await tab.mouse.down();
  await tab.mouse.move(x, y - 60, { steps: 4 });
  await tab.mouse.up();
  const { q } = await proven(tab);
  expect(q).toBeGreaterThan(0.35);

  await setSlider(proof, "p(love), target", 0.85);
  expect(await proven(tab)).toEqual({ p: 0.85, q });
  await expect.poll(() => tab.url()).toContain("p=0.85,0.15");
});

test("blocks keep their areas: what is let go moves into what is missing", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "proof", reducedMotion: true });
  const proof = figure(tab, "proof", 0);
  const heights = async (name: string): Promise<number> => {
    const all = await proof.locator(`svg g.block rect.${name}`).all();
    return (await Promise.all(all.map((rect) => rect.getAttribute("height")))).reduce((s, h) => s + Number(h), 0);
  };
  await proof.getByRole("button", { name: "Next" }).click();
  const before = await proof.locator("svg g.block").boundingBox();
  const area = await heights("let-go");
  await proof.getByRole("button", { name: "Next" }).click();
  await proof.getByRole("button", { name: "Next" }).click();
  await expect.poll(async () => (await proof.locator("svg g.block").boundingBox())?.x).toBeLessThan((before?.x ?? 0) - 50);
  expect(await heights("fill")).toBeCloseTo(area, 6);
});

test("whole sentences have the target's probabilities by both verifiers, and not by the wrong one", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "proof" });
  const sentences = figure(tab, "proof", "whole sentences");
  for (const rule of ["word by word", "whole block"]) {
    await sentences.getByLabel(rule, { exact: true }).check();
    for (const gamma of ["1", "2"]) {
      await sentences.getByLabel(gamma, { exact: true }).check();
      const { rows } = await table(sentences);
      expect(rows).toHaveLength(15);
      expect(rows.map((row) => row[3])).toEqual(rows.map(() => "less than 10⁻¹²"));
      expect(rows.reduce((sum, row) => sum + number(row[2] ?? ""), 0)).toBeCloseTo(1, 4);
    }
  }
  await sentences.getByLabel("wrong: resample from p").check();
  const { rows } = await table(sentences);
  expect(Math.max(...rows.map((row) => number(row[3] ?? "")).filter((d) => !Number.isNaN(d)))).toBeGreaterThan(0.01);
});
