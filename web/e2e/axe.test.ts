/** WCAG 2.2 AA by axe-core, over the whole page: as it opens, and with all its tables and proofs open. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { describe } from "vitest";
import { expect, openAll, test, ways } from "./page.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** One line for each thing found. */
async function violations(tab: Page): Promise<string[]> {
  await tab.evaluate(AXE);
  const found = (await tab.evaluate(`axe.run(document, { runOnly: ${JSON.stringify(RULES)}, resultTypes: ["violations"] })`)) as AxeResults;
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html}: ${n.failureSummary ?? ""}`));
}

describe.each(ways)("$lang, $scheme", ({ lang, scheme }) => {
  test("axe finds nothing", async ({ open }) => {
    const tab = await open({ lang, scheme, reducedMotion: true });
    expect(await violations(tab)).toEqual([]);
  });
});

test("nor on a narrow screen, with all that can be opened open", async ({ open }) => {
  const tab = await open({ lang: "zh", width: 320, reducedMotion: true });
  await openAll(tab);
  expect(await violations(tab)).toEqual([]);
});

test("what is wrong would be found", async ({ open }) => {
  const tab = await open({ lang: "en" });
  await tab.evaluate(() => {
    const main = document.querySelector("main");
    main?.insertAdjacentHTML("beforeend", '<button></button><p class="numbers" id="pale">pale</p>');
    document.getElementById("pale")?.style.setProperty("color", "#ccc");
  });
  const found = (await violations(tab)).map((line) => line.split(":")[0]);
  expect(found).toEqual(expect.arrayContaining(["button-name", "color-contrast"]));
});
