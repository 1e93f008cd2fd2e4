/** Chapter 2: by hand a reader comes to the target's counts; the rule does it one timeline at a time. */

import { expect, figure, number, table, test } from "./page.ts";

test("erasing by hand comes to three loves and two hates, and the page counts", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "laws" });
  const hand = figure(tab, "laws", 0);
  let erased = 0;
  for (; erased < 60; erased++) {
    const { rows } = await table(hand);
    const loves = rows.filter((row) => row[4] === "love").length;
    if (loves === 3) break;
    const surplus = loves < 3 ? "hate" : "love";
    const at = rows.findIndex((row) => row[4] === surplus);
    await hand.getByRole("button", { name: `Erase timeline ${at + 1}, ${surplus}` }).click();
  }
  const { rows } = await table(hand);
  expect(rows.map((row) => row[4]).sort()).toEqual(rows.map((row) => row[1]).sort());
  expect(rows.reduce((sum, row) => sum + number(row[3] ?? ""), 0)).toBe(erased);
  const kept = rows.filter((row) => row[3] === "0").length;
  await hand.getByText(`You kept ${kept} of the draft’s words and drew ${erased}`).first().waitFor();
});

test("the rule, blind to all others, ends in the band around the target's law", async ({ open }) => {
  for (const [lang, search] of [["en", ""], ["zh", ""], ["en", "p=0.35,0.65&q=0.9,0.1"]] as const) {
    const tab = await open({ lang, search, chapter: "laws" });
    const rule = figure(tab, "laws", 1);
    for (let i = 0; i < 5; i++) await rule.getByRole("button", { name: "1,000" }).click();
    const { rows } = await table(rule);
    expect(rows).toHaveLength(2);
    expect(rows.reduce((sum, row) => sum + number(row[3] ?? ""), 0)).toBe(5100);
    for (const row of rows) {
      const [, q = NaN, p = NaN, , share = NaN, low = NaN, high = NaN] = row.map(number);
      expect(share).toBeGreaterThanOrEqual(low);
      expect(share).toBeLessThanOrEqual(high);
      expect(Math.abs(share - p)).toBeLessThan(Math.abs(share - q) / 10);
    }
    // laws that the reader set elsewhere hold here too, until those of the story are wanted back
    const back = rule.getByRole("button", { name: "Back to three in five" });
    expect(await back.count()).toBe(search === "" ? 0 : 1);
    if (search === "") continue;
    expect(rows.map((row) => number(row[2] ?? ""))).toEqual([0.35, 0.65]);
    await back.click();
    expect((await table(rule)).rows.map((row) => number(row[2] ?? ""))).toEqual([0.6, 0.4]);
  }
});
