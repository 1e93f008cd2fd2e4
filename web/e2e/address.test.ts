/** The address holds what the reader chose, and a link brings it back. */

import type { Page } from "playwright-core";
import { expect, settled, test } from "./page.ts";

const clipboard = { permissions: ["clipboard-read", "clipboard-write"] };

/** The link that the page copies: all that the reader set, at once; the address follows a moment later. */
async function link(tab: Page): Promise<URL> {
  await tab.getByRole("button", { name: "Copy link" }).click();
  await tab.getByText("Link copied").first().waitFor();
  return new URL(await tab.evaluate(() => navigator.clipboard.readText()));
}

test("a link is restored: language, seed, laws, chapter", async ({ open }) => {
  const tab = await open({ lang: "zh", search: "seed=11&p=0.35,0.65&q=0.7,0.3", hash: "convergence" });
  expect(await tab.locator("html").getAttribute("lang")).toBe("zh-Hans");
  expect(await tab.locator("#convergence").evaluate((one) => Math.abs(one.getBoundingClientRect().top))).toBeLessThan(120);
  expect(await tab.locator("header").first().textContent()).toContain("11");
  const url = new URL(tab.url());
  expect(Object.fromEntries(url.searchParams)).toMatchObject({ lang: "zh", seed: "11", p: "0.35,0.65", q: "0.7,0.3" });
  expect(url.hash).toBe("#convergence");
});

test("what every control is set to comes back from the address", async ({ open }) => {
  const tab = await open({ lang: "en", reducedMotion: true, context: clipboard });
  const state = (): Promise<string[]> =>
    tab.locator('input[type="range"], input[type="checkbox"], input[type="radio"]').evaluateAll((all) =>
      all.map((one) => {
        const input = one as HTMLInputElement;
        const name = input.labels?.[0]?.textContent?.trim() ?? "";
        return `${input.closest("section")?.id ?? ""} ${name}: ${input.type === "range" ? input.value : String(input.checked)}`;
      }),
    );
  for (const slider of await tab.locator('main input[type="range"]').all()) {
    if (await slider.isVisible()) await slider.press((await slider.inputValue()) === (await slider.getAttribute("max")) ? "ArrowLeft" : "ArrowRight");
  }
  for (const toggle of await tab.locator("main input[role=switch]").all()) await toggle.press("Space");
  const before = await state();
  const { search } = await link(tab);
  await expect.poll(() => new URL(tab.url()).search).toBe(search);
  await tab.reload();
  await settled(tab);
  expect(await state()).toEqual(before);
});

test("a language chosen by hand stays, in the address and without it", async ({ open }) => {
  const tab = await open();
  expect(await tab.locator("html").getAttribute("lang")).toBe("en");
  await tab.getByRole("button", { name: "中文" }).click();
  await tab.waitForFunction(() => location.search === "?lang=zh");
  expect(await tab.title()).toContain("抢先一步");
  await tab.goto(new URL("/", tab.url()).href);
  await settled(tab);
  expect(await tab.locator("html").getAttribute("lang")).toBe("zh-Hans");
});

test("the browser's language decides where nobody chose", async ({ open }) => {
  const tab = await open({ context: { locale: "zh-CN" } });
  expect(await tab.locator("html").getAttribute("lang")).toBe("zh-Hans");
});

test("the copied link is whole", async ({ open }) => {
  const url = await link(await open({ search: "seed=3", context: clipboard }));
  expect(Object.fromEntries(url.searchParams)).toMatchObject({ lang: "en", seed: "3" });
});
