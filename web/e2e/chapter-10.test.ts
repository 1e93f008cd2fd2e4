/** Chapter 10: every entry opens, with its paper; filters show what they name; relatives lead on. */

import { describe } from "vitest";
import { expect, figure, number, table, test } from "./page.ts";

describe.each(["en", "zh"] as const)("the family, %s", (lang) => {
  test("every entry says what it adds and where it is written", async ({ open }) => {
    const tab = await open({ lang, chapter: "family" });
    const map = figure(tab, "family");
    const entries = await map.locator("button.chip").all();
    const { rows } = await table(map);
    expect(entries).toHaveLength(rows.length);
    expect(rows.length).toBeGreaterThan(40);
    const years = rows.map((row) => number(row[1]!));
    expect(Math.min(...years)).toBe(2018);
    for (const entry of entries) {
      if ((await entry.getAttribute("aria-expanded")) === "false") await entry.click();
      const panel = map.locator("[data-entry]");
      expect(await panel.count()).toBe(1);
      expect((await panel.locator(".sentence").textContent())!.length).toBeGreaterThan(10);
      expect(await panel.locator("a").getAttribute("href")).toMatch(/^https:\/\/(arxiv\.org\/abs\/\d{4}\.\d{5}|github\.com\/)/);
    }
  });

  test("filters show what they name", async ({ open }) => {
    const tab = await open({ lang, chapter: "family" });
    const map = figure(tab, "family");
    const all = (await table(map)).rows;
    const [every, lossless, ours] = await map.locator('input[type="radio"]').all();
    await lossless!.check();
    const strict = (await table(map)).rows;
    expect(strict.length).toBe(all.filter((row) => row[4] === strict[0]![4]).length);
    expect(strict.length).toBeLessThan(all.length);
    await ours!.check();
    const own = (await table(map)).rows;
    expect(own.some((row) => row[5]!.includes("rejection"))).toBe(true);
    expect(own.some((row) => row[5]!.includes("suffix"))).toBe(true);
    await every!.check();
    expect((await table(map)).rows).toEqual(all);
  });

  test("an entry in the address opens, and its relatives lead on", async ({ open }) => {
    const tab = await open({ lang, chapter: "family", search: "paper=eagle3" });
    const panel = tab.locator("#family [data-entry]");
    expect(await panel.getAttribute("data-entry")).toBe("eagle3");
    await panel.getByRole("button", { name: "EAGLE-2" }).click();
    expect(await panel.getAttribute("data-entry")).toBe("eagle2");
    await expect.poll(() => tab.url()).toContain("paper=eagle2");
  });
});
