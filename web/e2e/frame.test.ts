/** The frame: what holds of the whole page, in both languages and both colour schemes. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import { describe } from "vitest";
import { expect, test, ways } from "./page.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

describe.each(ways)("$lang, $scheme", ({ lang, scheme }) => {
  test("axe finds nothing", async ({ open }) => {
    const tab = await open({ lang, scheme, reducedMotion: true });
    await tab.evaluate(AXE);
    const found = (await tab.evaluate(
      'axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })',
    )) as AxeResults;
    expect(found.violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).join(" | ")}`)).toEqual([]);
    expect(found.passes.length).toBeGreaterThan(20);
  });
});
