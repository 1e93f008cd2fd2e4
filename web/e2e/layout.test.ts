/** From 320 px to 4K nothing sticks out or overlaps; in print every step, tab and proof is there. */

import { describe } from "vitest";
import { expect, openAll, quiet, test } from "./page.ts";

const widths = [320, 390, 768, 1440, 3840];

describe.each(["en", "zh"] as const)("%s", (lang) => {
  test("no width makes the page scroll sideways, no text leaves its picture, and none is tiny", async ({ open }) => {
    const tab = await open({ lang, reducedMotion: true });
    await openAll(tab);
    for (const width of widths) {
      await tab.setViewportSize({ width, height: 900 });
      await quiet(tab);
      const out = await tab.evaluate(() => {
        const wide: string[] = [];
        const limit = document.documentElement.clientWidth + 1;
        if (document.documentElement.scrollWidth > limit) wide.push(`page: ${document.documentElement.scrollWidth}`);
        for (const one of document.querySelectorAll("main *, header *, nav *")) {
          if (one.closest(".katex-mathml, .visually-hidden, table, .katex") || !one.checkVisibility()) continue;
          const box = one.getBoundingClientRect();
          const inScroller = one.parentElement?.closest("[tabindex='0'], .scroll");
          if (!inScroller && (box.right > limit || box.left < -1)) wide.push(one.outerHTML.slice(0, 120));
        }
        for (const text of document.querySelectorAll("main svg text")) {
          const box = text.getBoundingClientRect();
          const around = text.closest("svg")?.getBoundingClientRect();
          if (around && box.width > 0 && (box.right > around.right + 2 || box.left < around.left - 2 || box.bottom > around.bottom + 3 || box.top < around.top - 3))
            wide.push(`${text.closest("section[data-chapter]")?.id}: ${text.textContent} leaves its picture`);
        }
        return wide.slice(0, 10);
      });
      expect(out, `${width} px`).toEqual([]);
    }

    await tab.setViewportSize({ width: 390, height: 900 });
    await quiet(tab);
    const tiny = await tab.evaluate(() => {
      const found: string[] = [];
      for (const text of document.querySelectorAll<SVGTextElement>("main svg text")) {
        const scale = text.getScreenCTM()?.a ?? 1;
        const size = Number.parseFloat(getComputedStyle(text).fontSize) * scale;
        if (text.textContent?.trim() && text.checkVisibility() && size > 0 && size < 10.5) found.push(`${text.closest("section[data-chapter]")?.id}: ${text.textContent} ${size.toFixed(1)} px`);
      }
      return found;
    });
    expect(tiny).toEqual([]);
  });
});

test("print opens every step, tab and proof, on light paper", async ({ open }) => {
  const tab = await open({ lang: "en", scheme: "dark", reducedMotion: true });
  const steps = await tab.locator(".steps .dot").count();
  await tab.emulateMedia({ media: "print" });
  await tab.locator(".steps").first().waitFor({ state: "detached" });
  // and those of the tabs that were not shown
  expect(await tab.locator(".printed.step").count()).toBeGreaterThan(steps);
  expect(await tab.locator("[role=tab]").count()).toBe(0);
  expect(await tab.locator("main details.more:not([open])").count()).toBe(0);
  expect(await tab.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)).toBe("rgb(255, 255, 255)");
  expect(await tab.locator("nav").isVisible()).toBe(false);
  await tab.emulateMedia({ media: "screen" });
  await tab.locator(".printed").first().waitFor({ state: "detached" });
});
