/**
 * Pictures of every chapter in both languages, 390 and 1440 px wide, as PNG under pictures/out/:
 * `make pictures` makes them small (pictures/shrink.py) and puts them into docs/playground/.
 */

import { mkdirSync } from "node:fs";
import { describe } from "vitest";
import { expect, test, type Lang } from "../e2e/page.ts";

const OUT = new URL("out/", import.meta.url).pathname;
const only = process.env["CHAPTER"];
const scheme = process.env["SCHEME"] === "dark" ? "dark" : "light";

const looks: { lang: Lang; width: number }[] = [
  { lang: "en", width: 1440 },
  { lang: "en", width: 390 },
  { lang: "zh", width: 1440 },
  { lang: "zh", width: 390 },
];

describe.each(looks)("$lang, $width px", ({ lang, width }) => {
  test("pictures", async ({ open }) => {
    mkdirSync(OUT, { recursive: true });
    const tab = await open({ lang, width, height: 900, scheme, reducedMotion: true });
    await tab.evaluate(() => document.fonts.ready);
    const name = (n: number, id: string): string => `${OUT}${String(n).padStart(2, "0")}-${id}-${lang}-${width}.png`;
    if (!only || only === "head") await tab.screenshot({ path: name(0, "head") });
    // what stays in view while a reader scrolls would lie across the pictures
    await tab.evaluate(() => document.querySelector("nav")?.style.setProperty("display", "none"));
    const chapters = await tab.locator("main > section").all();
    for (const chapter of chapters) {
      const id = (await chapter.getAttribute("id")) ?? "";
      if (!only || only === id) await chapter.screenshot({ path: name(Number(await chapter.getAttribute("data-chapter")), id) });
    }
    expect(chapters).toHaveLength(10);
  });
});
