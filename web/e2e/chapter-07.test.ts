/** Chapter 7: a round's steps forwards and back are inverse; the summary counts what is shown; shared luck, one text. */

import type { Locator } from "playwright-core";
import { describe } from "vitest";
import { expect, figure, number, table, test } from "./page.ts";

const WAYS = 6;

/** What a step shows, apart from the buttons. */
const picture = (round: Locator): Promise<string> =>
  round.locator(".steps").evaluate((steps) => {
    const copy = steps.cloneNode(true) as Element;
    copy.querySelector(".row")?.remove();
    return copy.innerHTML;
  });

describe.each(["en", "zh"] as const)("a sentence, %s", (lang) => {
  test("steps forwards and back are inverse, in every way of judging", async ({ open }) => {
    const tab = await open({ lang, chapter: "sentence" });
    const ways = tab.locator("#sentence [role=tab]");
    expect(await ways.count()).toBe(WAYS);
    for (let way = 0; way < WAYS; way++) {
      await ways.nth(way).click();
      const round = figure(tab, "sentence");
      const [back, next, , start] = await round.locator(".steps .row button").all();
      await start!.click();
      const seen: string[] = [await picture(round)];
      while ((await next!.getAttribute("aria-disabled")) === null) {
        await next!.click();
        seen.push(await picture(round));
      }
      expect(seen.length).toBeGreaterThan(6);
      expect(new Set(seen).size).toBe(seen.length);
      expect(await round.locator("[data-step]").getAttribute("data-step")).toBe("done");
      for (let i = seen.length - 2; i >= 0; i--) {
        await back!.click();
        expect(await picture(round), `way ${way}, step ${i}`).toBe(seen[i]);
      }
      expect(await back!.getAttribute("aria-disabled")).toBe("true");
    }
  });

  test("the verdicts follow from the page's own numbers", async ({ open }) => {
    for (const seed of [1, 2, 3]) {
      const tab = await open({ lang, chapter: "sentence", search: `way=sampled&seed=${seed}` });
      const round = figure(tab, "sentence");
      const { rows } = await table(round);
      // words are judged until one is rejected, each by its own coin against min(1, p/q)
      const kept = new Set<string>();
      let reached = true;
      for (const row of rows) {
        const [q, p, chance, coin] = row.slice(2, 6).map(number);
        const fate = row.at(-1)!;
        if (!reached) {
          expect(chance).toBeNaN();
          continue;
        }
        expect(Math.abs(chance! - Math.min(1, p! / q!))).toBeLessThan(0.05);
        reached = coin! < chance!;
        if (reached) kept.add(fate);
        else expect(kept).not.toContain(fate);
      }
      expect(kept.size).toBeLessThanOrEqual(1);
      // at the end, the line holds the kept guesses and one word of the target's own
      const next = round.locator(".steps .row button").nth(1);
      while ((await next.getAttribute("aria-disabled")) === null) await next.click();
      const marks = await round.locator(".line .mark").count();
      const told = (await round.locator(".summary").textContent()) ?? "";
      expect(told).toMatch(new RegExp(`\\b${marks}\\b`));
    }
  });

  test("guesses of a drawn tree are judged against what is left of p, by the page's own numbers", async ({ open }) => {
    for (const seed of [7, 8, 9]) {
      const tab = await open({ lang, chapter: "sentence", search: `way=drawn&seed=${seed}` });
      const { rows } = await table(figure(tab, "sentence"));
      expect(rows).toHaveLength(6);
      expect(new Set(rows.slice(0, 2).map((row) => row[0])).size).toBe(2);
      const judged = rows.map((row) => row.slice(2, 6).map(number)).filter(([, , chance]) => !Number.isNaN(chance));
      expect(judged.length).toBeGreaterThan(0);
      for (const [q, left, chance] of judged) expect(Math.abs(chance! - Math.min(1, left! / q!))).toBeLessThan(0.05);
      const [first] = judged;
      // the first guess meets p itself, which is in twentieths here
      expect(Math.abs(first![1]! * 20 - Math.round(first![1]! * 20))).toBeLessThan(1e-9);
      // a second one is judged where the first was rejected
      expect(Number.isNaN(rows.slice(0, 2).map((row) => number(row[4]!))[1])).toBe(first![3]! < first![2]!);
    }
  });

  test("over all trees and coins the next two words have the target's probabilities, and not under a careless judge", async ({ open }) => {
    const tab = await open({ lang, chapter: "sentence", search: "way=drawn" });
    const every = figure(tab, "sentence", 1);
    const { rows } = await table(every);
    const none = rows[0]![3];
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.map((row) => row[3])).toEqual(rows.map(() => none));
    expect(none).toContain("10⁻¹²");
    expect(rows.reduce((sum, row) => sum + number(row[2]!), 0)).toBeCloseTo(1, 4);
    await every.getByRole("switch").check();
    const bent = (await table(every)).rows;
    expect(Math.max(...bent.map((row) => Math.abs(number(row[1]!) - number(row[2]!))))).toBeGreaterThan(0.01);
    expect(bent.map((row) => row[1])).toEqual(rows.map((row) => row[1]));
  });

  test("under shared luck four drafters write one text, in fewer passes the better they guess", async ({ open }) => {
    for (const seed of [7, 8]) {
      const tab = await open({ lang, chapter: "sentence", search: `way=coupled&seed=${seed}` });
      const { rows } = await table(figure(tab, "sentence", 1));
      expect(rows).toHaveLength(4);
      expect(new Set(rows.map((row) => row[2])).size).toBe(1);
      const passes = rows.map((row) => number(row[1]!));
      expect(passes[3]!).toBeLessThan(passes[0]!);
      for (const n of passes) expect(n).toBeLessThanOrEqual(passes[0]!);
    }
  });

  test("a block keeps no fewer words on average than words judged one by one", async ({ open }) => {
    const tab = await open({ lang, chapter: "sentence", search: "way=block" });
    const caption = (await figure(tab, "sentence").locator("figcaption").textContent()) ?? "";
    const [word, block] = [...caption.matchAll(/\d\.\d\d/g)].map((found) => Number(found[0]));
    expect(block!).toBeGreaterThan(word!);
  });
});
