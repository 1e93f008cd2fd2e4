/** Chapter 1: both lanes of the race write the same text, the guessing one with fewer passes and sooner. */

import { describe } from "vitest";
import { expect, figure, number, setSlider, table, test } from "./page.ts";

describe.each(["en", "zh"] as const)("the waste, %s", (lang) => {
  test("the race ends with equal texts, in fewer expensive steps and less time", async ({ open }) => {
    const tab = await open({ lang, chapter: "waste" });
    const race = figure(tab, "waste", 1);
    for (const guesses of [1, 4, 8]) {
      await setSlider(race, /γ/, guesses);
      const { rows } = await table(race);
      const [plain, ahead] = rows.map((row) => row.slice(1).map(number));
      const [passes, guessed, kept, words, time] = [0, 1, 2, 3, 4];
      expect(ahead![passes!]!).toBeLessThan(plain![passes!]!);
      expect(ahead![words!]).toBe(plain![words!]);
      expect(plain![passes!]).toBe(plain![words!]! - 1);
      expect(plain![guessed!]).toBe(0);
      // every pass brings the guesses it kept and one word more
      expect(ahead![kept!]! + ahead![passes!]!).toBe(ahead![words!]! - 1);
      expect(ahead![time!]!).toBeLessThan(plain![time!]!);
    }
    const clock = race.locator('input[type="range"]').nth(1);
    await clock.evaluate((input: HTMLInputElement) => {
      input.value = input.max;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await expect.poll(() => race.locator(".later").count()).toBe(0);
    const texts = await race.locator("[data-lane]").allTextContents();
    expect(texts[0]!.trim()).not.toBe("");
    expect(texts[1]).toBe(texts[0]);
    expect(await race.locator("[data-same]").getAttribute("data-same")).toBe("true");
  });

  test("at first the guessing lane is done and the other is not; playing ends both", async ({ open }) => {
    const tab = await open({ lang, chapter: "waste", reducedMotion: true });
    const race = figure(tab, "waste", 1);
    expect(await race.locator('[data-lane="ahead"] .later').count()).toBe(0);
    expect(await race.locator('[data-lane="plain"] .later').count()).toBeGreaterThan(0);
    await race.getByRole("button").first().click();
    await expect.poll(() => race.locator(".later").count()).toBe(0);
  });

  test("a pass over several tokens takes less than as many passes", async ({ open }) => {
    const tab = await open({ lang, chapter: "waste" });
    const { rows } = await table(figure(tab, "waste", 0));
    expect(rows).toHaveLength(16);
    for (const [n, pass, apart] of rows.map((row) => row.map(number)).slice(1)) {
      expect(pass!, `${n} tokens`).toBeLessThan(0.7 * apart!);
    }
  });
});
