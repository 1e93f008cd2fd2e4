/** What is fetched, and when: first what is seen, in the reader's language alone; the rest while the browser rests. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { expect, quiet, test } from "./page.ts";
import { BUILT } from "./setup.ts";

/** The scripts that the tab has fetched. */
function scripts(tab: Page): Promise<string[]> {
  return tab.evaluate(() => {
    const all = performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname.split("/").at(-1) ?? "");
    return [...new Set(all.filter((name) => name.endsWith(".js")))];
  });
}
const weight = (names: string[]): number => names.reduce((sum, name) => sum + gzipSync(readFileSync(join(BUILT, "assets", name))).length, 0) / 1000;
const drawn = (tab: Page): Promise<string[]> => tab.locator("main > [data-chapter]").evaluateAll((all) => all.map(({ id }) => id));

test("the first view takes at most 60 kB of scripts: the head and the first chapter, in one language", async ({ open }) => {
  for (const lang of ["en", "zh"] as const) {
    const tab = await open({ lang, chapter: "" });
    await tab.locator("#waste[data-chapter]").waitFor();
    expect(await drawn(tab)).toEqual(["waste"]);
    const fetched = await scripts(tab);
    expect(fetched.length).toBeGreaterThan(2);
    expect(fetched.filter((name) => name.startsWith(lang === "en" ? "zh-" : "en-"))).toEqual([]);
    expect(weight(fetched)).toBeLessThanOrEqual(60);
    expect(await tab.locator("main h2").allTextContents()).toHaveLength(10);
  }
});

test("a chapter comes when its number is chosen, and the other language when it is asked for", async ({ open }) => {
  const tab = await open({ lang: "en", chapter: "" });
  await tab.locator("nav a").nth(5).click();
  await tab.locator("#convergence[data-chapter]").waitFor();
  await quiet(tab);
  expect(Math.abs(await tab.locator("#convergence").evaluate((one) => one.getBoundingClientRect().top))).toBeLessThan(120);
  expect(await drawn(tab)).not.toContain("family");
  expect((await scripts(tab)).filter((name) => name.startsWith("zh-"))).toEqual([]);
  const before = await scripts(tab);
  await tab.getByRole("button", { name: "中文" }).click();
  await tab.locator("#convergence").getByText("收敛").first().waitFor();
  const added = (await scripts(tab)).filter((name) => !before.includes(name));
  expect(added).toHaveLength((await drawn(tab)).length);
  expect(added.filter((name) => !name.startsWith("zh-"))).toEqual([]);
});

test("a browser that rests has all chapters, in one language, and stays where it was asked to be", async ({ open }) => {
  const tab = await open({ lang: "zh", hash: "speed" });
  expect(await drawn(tab)).toHaveLength(10);
  expect(Math.abs(await tab.locator("#speed").evaluate((one) => one.getBoundingClientRect().top))).toBeLessThan(120);
  const fetched = await scripts(tab);
  expect(fetched.filter((name) => name.startsWith("en-"))).toEqual([]);
  expect(weight(fetched)).toBeLessThanOrEqual(125);
});
