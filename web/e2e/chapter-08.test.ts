/** Chapter 8: the best γ that is marked is the largest of the curve shown; it can lose. */

import { describe } from "vitest";
import { expect, figure, number, setSlider, table, test } from "./page.ts";

describe.each(["en", "zh"] as const)("how fast, %s", (lang) => {
  test("the best γ marked is the maximum of the shown curve", async ({ open }) => {
    const tab = await open({ lang, chapter: "speed" });
    const speed = figure(tab, "speed", 1);
    for (const [alpha, c] of [[0.7, 0.1], [0.9, 0], [0.3, 0.3], [0, 0]] as const) {
      await setSlider(speed, /α/, alpha);
      await setSlider(speed, /c/, c);
      const { rows } = await table(speed);
      const best = number(rows.at(-1)![1]!);
      const curve = rows.slice(0, -1).map((row) => number(row[1]!));
      expect(curve).toHaveLength(16);
      expect(curve[0]).toBe(1); // nothing drafted: plain decoding
      expect(curve[best]).toBe(Math.max(...curve));
      expect(await speed.locator("[data-best]").getAttribute("data-best")).toBe(String(best));
    }
  });

  test("speculation loses on a full machine, and the page says so", async ({ open }) => {
    const tab = await open({ lang, chapter: "speed", search: "curve=full&alpha=0.8&c=0.02" });
    const { rows } = await table(figure(tab, "speed", 1));
    const curve = rows.slice(0, -1).map((row) => number(row[1]!));
    expect(number(rows.at(-1)![1]!)).toBe(0);
    for (const times of curve.slice(1)) expect(times).toBeLessThan(1);
  });

  test("the words of a round add up to the closed form", async ({ open }) => {
    const tab = await open({ lang, chapter: "speed" });
    const bring = figure(tab, "speed", 0);
    for (const [alpha, gamma] of [[0.7, 4], [0.35, 9], [0.99, 15]] as const) {
      await setSlider(bring, /α/, alpha);
      await setSlider(bring, /γ/, gamma);
      const { rows } = await table(bring);
      const sum = rows.slice(0, -1).reduce((s, row) => s + number(row[1]!), 0);
      expect(rows).toHaveLength(gamma + 2);
      expect(Math.abs(sum - number(rows.at(-1)![1]!))).toBeLessThan(0.01);
      expect(number(rows.at(-1)![1]!)).toBeCloseTo((1 - alpha ** (gamma + 1)) / (1 - alpha), 2);
    }
  });
});
