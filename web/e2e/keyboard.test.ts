/** With the keyboard alone: everything is reached, seen when it is reached, and can be moved. */

import type { Page } from "playwright-core";
import { describe } from "vitest";
import { expect, openAll, test } from "./page.ts";

interface Focused {
  at: string;
  chapter: string;
  seen: boolean;
  ring: boolean;
}

/** Numbers everything that should take the focus, in the order of the page. */
function countStops(tab: Page): Promise<string[]> {
  return tab.evaluate(() => {
    const stops: string[] = [];
    const groups = new Set<string>();
    for (const one of document.querySelectorAll<HTMLElement>("a[href], button, input, select, textarea, summary, [tabindex]")) {
      if (one.tabIndex < 0 || !one.checkVisibility()) continue;
      // arrows, not Tab, move among radio buttons of one name
      if (one instanceof HTMLInputElement && one.type === "radio") {
        if (groups.has(one.name)) continue;
        groups.add(one.name);
        for (const other of document.getElementsByName(one.name)) other.dataset["stop"] = String(stops.length);
      }
      one.dataset["stop"] = String(stops.length);
      stops.push(one.outerHTML.slice(0, 160));
    }
    return stops;
  });
}

function focused(tab: Page): Promise<Focused> {
  return tab.evaluate(() => {
    const element = document.activeElement as HTMLElement;
    const box = element.getBoundingClientRect();
    const nav = document.querySelector("nav")?.getBoundingClientRect();
    const under = nav !== undefined && !element.closest("nav") && box.bottom <= nav.bottom && box.top >= nav.top;
    // switches, choices and handles in pictures are drawn by what stands beside, around or within
    const drawn = [element, element.nextElementSibling, element.closest("label")].filter((one) => one !== null);
    const handle = element instanceof SVGElement ? [...element.children] : [];
    const focus = document.documentElement.appendChild(document.createElement("i"));
    focus.style.setProperty("color", "var(--focus)");
    const colour = getComputedStyle(focus).color;
    focus.remove();
    return {
      at: element.dataset["stop"] ?? element.outerHTML.slice(0, 200),
      chapter: element.closest("section[data-chapter]")?.id ?? "",
      seen: box.height > 0 && box.bottom > 0 && box.top < innerHeight && !under,
      ring: handle.some((one) => getComputedStyle(one).stroke === colour) || drawn.some((one) => Number.parseFloat(getComputedStyle(one).outlineWidth) >= 2 && getComputedStyle(one).outlineStyle !== "none"),
    };
  });
}

describe.each(["en", "zh"] as const)("%s", (lang) => {
  test("Tab goes through all chapters, in order, and shows where it is", async ({ open }) => {
    const tab = await open({ lang, reducedMotion: true });
    const stops = await countStops(tab);
    const visited: Focused[] = [];
    for (let i = 0; i < stops.length; i++) {
      await tab.keyboard.press("Tab");
      visited.push(await focused(tab));
    }
    const missed = stops.filter((_, i) => visited[i]?.at !== String(i));
    expect(missed).toEqual([]);
    expect(visited.filter((one) => !one.seen || !one.ring).map((one) => stops[Number(one.at)])).toEqual([]);
    const chapters = await tab.locator("main > section").evaluateAll((all) => all.map((one) => one.id));
    expect(chapters).toHaveLength(10);
    expect([...new Set(visited.map((one) => one.chapter))].filter(Boolean)).toEqual(chapters);
  });
});

test("arrows move every slider, and each says its value", async ({ open }) => {
  const tab = await open({ lang: "en", reducedMotion: true });
  const sliders = tab.locator('input[type="range"]');
  const count = await sliders.count();
  for (let i = 0; i < count; i++) {
    const slider = sliders.nth(i);
    if (!(await slider.isVisible()) || (await slider.isDisabled())) continue;
    const before = Number(await slider.inputValue());
    const label = await slider.evaluate((one: HTMLInputElement) => one.labels?.[0]?.textContent ?? one.getAttribute("aria-label"));
    expect(label).toBeTruthy();
    await slider.focus();
    await slider.press(before >= Number(await slider.getAttribute("max")) ? "ArrowLeft" : "ArrowRight");
    expect(Number(await slider.inputValue()), label ?? "").not.toBe(before);
    expect(await slider.getAttribute("aria-valuetext"), label ?? "").toBeTruthy();
  }
  expect(count).toBeGreaterThan(5);
});

test("the link to the chapters skips the head, and numbers lead to their chapters", async ({ open }) => {
  const tab = await open({ lang: "en" });
  await tab.keyboard.press("Tab");
  await tab.keyboard.press("Enter");
  await tab.keyboard.press("Tab");
  expect((await focused(tab)).chapter).toBe("waste");
  await tab.locator("nav a").nth(5).press("Enter");
  await tab.keyboard.press("Tab");
  expect((await focused(tab)).chapter).toBe("convergence");
  expect(await tab.locator("#convergence h2").evaluate((h) => h.getBoundingClientRect().top)).toBeLessThan(400);
  await openAll(tab);
});
