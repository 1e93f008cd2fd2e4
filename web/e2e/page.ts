/**
 * What tests of the page share: `open` gives a fresh tab at an address; when the test ends, no
 * request may have left the origin and nothing may have gone to the console as an error or warning.
 *
 *     test("…", async ({ open }) => {
 *       const tab = await open({ lang: "zh", search: "seed=3", chapter: "accept" });
 *       const { rows } = await table(figure(tab, "accept"));
 *     });
 *
 * No test waits for a time: they wait for what the page shows, at most PATIENCE. SLOW=4 npm run e2e
 * takes a processor four times as slow.
 */

import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Locator, type Page } from "playwright-core";
import { test as base, expect, inject } from "vitest";

export { expect };

const SLOW = Number(process.env["SLOW"] ?? 1);

export type Lang = "en" | "zh";
export type Scheme = "light" | "dark";

/** Every language in every colour scheme. */
export const ways: readonly { lang: Lang; scheme: Scheme }[] = [
  { lang: "en", scheme: "light" },
  { lang: "en", scheme: "dark" },
  { lang: "zh", scheme: "light" },
  { lang: "zh", scheme: "dark" },
];

/** Milliseconds until something that does not come is missed. */
const PATIENCE = 120_000;

export interface Opening {
  lang?: Lang;
  scheme?: Scheme;
  /** Of the address, without "?"; `lang` is added. */
  search?: string;
  /** The id of a chapter to open at, without waiting for others: as for a browser that never rests, only those near it are drawn. */
  chapter?: string;
  /** The id of a chapter to open at, with all of them drawn. */
  hash?: string;
  width?: number;
  height?: number;
  reducedMotion?: boolean;
  context?: BrowserContextOptions;
  /** Of another server than the page's own, such as e2e/forerun.ts starts. */
  address?: string;
}

const extended = base
  .extend("browser", { scope: "file" }, async ({}, { onCleanup }): Promise<Browser> => {
    const browser = await chromium.launch({ executablePath: inject("browser"), args: ["--no-sandbox", "--disable-gpu"] });
    onCleanup(() => browser.close());
    return browser;
  })
  .extend("open", async ({ browser }, { onCleanup }) => {
    const contexts: BrowserContext[] = [];
    const wrong: string[] = [];
    onCleanup(async () => {
      const found = [...wrong]; // a tab that is being closed has no width any more
      for (const context of contexts) await context.close();
      expect(found).toEqual([]);
    });
    return async (opening: Opening = {}): Promise<Page> => {
      const { lang, scheme = "light", search = "", chapter, hash = "", width = 1280, height = 900 } = opening;
      const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: scheme,
        reducedMotion: opening.reducedMotion ? "reduce" : "no-preference",
        locale: "en-US",
        ...opening.context,
      });
      context.setDefaultTimeout(PATIENCE);
      contexts.push(context);
      const tab = await context.newPage();
      if (SLOW > 1) await (await context.newCDPSession(tab)).send("Emulation.setCPUThrottlingRate", { rate: SLOW });
      if (chapter !== undefined) await tab.addInitScript("globalThis.requestIdleCallback = () => 0");
      const url = new URL(opening.address ?? inject("address"));
      watch(tab, url.origin, wrong);
      url.search = search;
      if (lang !== undefined) url.searchParams.set("lang", lang);
      url.hash = chapter ?? hash;
      await tab.goto(url.href);
      await settled(tab, chapter);
      return tab;
    };
  });

/** Skipped where there is no browser (setup.ts says so, or fails when one is required). */
export const test = (inject("browser") === "" ? extended.skip : extended) as typeof extended;

function watch(tab: Page, origin: string, wrong: string[]): void {
  tab.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong.push(`console: ${message.text()}`);
  });
  tab.on("pageerror", (error) => wrong.push(`uncaught: ${error.stack ?? error.message}`));
  tab.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && !["blob:", "data:"].includes(url.protocol)) wrong.push(`left the origin: ${request.url()}`);
  });
}

/** A figure of a chapter: the nth (from 0), or the one whose title holds `which`. */
export function figure(tab: Page, chapter: string, which: number | string = 0): Locator {
  const all = tab.locator(`#${chapter} figure`);
  return typeof which === "number" ? all.nth(which) : all.filter({ hasText: which }).first();
}

/** The numbers behind a figure, from its own table; opens it. */
export async function table(of: Locator): Promise<{ head: string[]; rows: string[][] }> {
  const details = of.locator("details").last();
  if ((await details.getAttribute("open")) === null) await details.locator("summary").click();
  await details.locator("table").waitFor();
  return details.locator("table").evaluate((element) => {
    const cells = (row: Element): string[] => [...row.children].map((cell) => cell.textContent?.trim() ?? "");
    const [head, ...rows] = [...element.querySelectorAll("tr")].map(cells);
    return { head: head ?? [], rows };
  });
}

/** "1,234", "−0.5", "25%" (0.25) as numbers; NaN where it is none. */
export function number(text: string): number {
  const plain = text.replaceAll(",", "").replace("−", "-").trim();
  return plain.endsWith("%") ? Number(plain.slice(0, -1)) / 100 : Number(plain === "" ? NaN : plain);
}

/** Sets a slider by its label, as typing into its number field does. */
export async function setSlider(within: Locator | Page, label: string | RegExp, value: number): Promise<void> {
  const field = within.getByLabel(label).and(within.locator('input[type="number"]')).first();
  await field.fill(String(value));
  await field.press("Tab");
}

/** Until the page is as it will stay: every chapter (or the one named) is drawn, the recordings of chapter 9 are there, and nothing moves any more. */
export async function settled(tab: Page, chapter?: string): Promise<void> {
  if (chapter === undefined) await tab.locator("main[aria-busy=false]").waitFor();
  if (chapter !== "") await tab.locator(`#${chapter ?? "live"}[data-chapter] figure`).first().waitFor();
  await quiet(tab);
}

/** Until fonts are there, and nothing has changed in the document for a while: no samples are being drawn, no sizes measured. */
export async function quiet(tab: Page): Promise<void> {
  await tab.evaluate(async () => {
    await document.fonts.ready;
    await new Promise<void>((done) => {
      // counted in frames: a slow page has slow ones
      let still = 0;
      const changes = new MutationObserver(() => (still = 0));
      changes.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
      const frame = (): void => {
        still += 1;
        if (still < 6) requestAnimationFrame(frame);
        else [changes.disconnect(), done()];
      };
      requestAnimationFrame(frame);
    });
  });
}

/** Opens every <details> of the page. */
export async function openAll(tab: Page): Promise<void> {
  await tab.evaluate(() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  await quiet(tab);
}
