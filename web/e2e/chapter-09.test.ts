/** Live: recordings without a model; a real SmolLM2 behind `forerun serve`; runs as files. */

import { readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, inject } from "vitest";
import { openFile } from "../src/trace/recording";
import { installed, serve, type Serving } from "./forerun.ts";
import { expect, figure, number, setSlider, table, test } from "./page.ts";

/** Rows of the table: round, token, p, q, chance, coin, what came of it. */
async function rows(tab: Page): Promise<string[][]> {
  return (await table(figure(tab, "live"))).rows;
}

/** That each verdict follows from the numbers beside it, and all rounds from each other. */
function consistent(found: string[][], verifier: "rejection" | "coupled"): void {
  let rejected = 0;
  for (const [round, , p, q, chance, coin, verdict] of found) {
    if (p === "") rejected = 0;
    if (p === "" || chance === "") continue;
    expect(rejected, `round ${round}: judged after a rejection`).toBe(0);
    if (verifier === "rejection") {
      expect(number(chance ?? "")).toBeCloseTo(Math.min(1, number(p ?? "") / number(q ?? "")), 2);
      const passed = number(coin ?? "") < number(chance ?? "");
      if (coin !== chance) expect(verdict === "kept", `round ${round}: coin ${coin}, chance ${chance}`).toBe(passed);
    } else {
      expect(coin).toBe("");
    }
    if (verdict !== "kept") rejected += 1;
  }
}

async function written(tab: Page): Promise<string> {
  return tab.locator("#live figure .written").innerText();
}

async function write(tab: Page): Promise<void> {
  const status = tab.locator("#live form [role=status]");
  await tab.getByRole("button", { name: "Write", exact: true }).click();
  await expect.poll(() => status.innerText()).toBe("");
  await tab.getByText("Written just now by smollm2").first().waitFor();
}

describe("recordings", () => {
  test.for(["sampled", "block", "suffix", "coupled"] as const)("%s is shown, said to be one, and holds together", async (name, { open }) => {
    const tab = await open({ lang: "en", search: `run=${name}`, chapter: "live" });
    const shown = figure(tab, "live");
    await shown.waitFor();
    expect(await shown.innerText()).toMatch(/^.*\n*A recording of \d{4}-\d\d-\d\d, on /m);
    const recorded = openFile(await (await tab.request.get(new URL(`recordings/${name}.json`, inject("address")).href)).text());
    const found = await rows(tab);
    const guesses = recorded.rounds.reduce((sum, { drafted }) => sum + drafted.length, 0);
    expect(found.filter(([, , p]) => p !== "")).toHaveLength(guesses);
    if (name === "sampled" || name === "suffix") consistent(found, "rejection");
    await setSlider(tab.locator("#live"), /^Round/, recorded.rounds.length);
    await expect.poll(async () => (await written(tab)).trim().slice(0, 60)).toBe(recorded.text.trim().slice(0, 60));
    expect(await shown.innerText()).toContain(`After ${recorded.rounds.length} of ${recorded.rounds.length} rounds`);
  });

  test("scrubbing goes back and forth, and into the address", async ({ open }) => {
    const tab = await open({ lang: "en", search: "run=sampled&round=3", chapter: "live" });
    const shown = figure(tab, "live");
    await shown.waitFor();
    await tab.getByText("After 3 of 13 rounds").first().waitFor();
    const seen = async (): Promise<number> => tab.locator("#live .written span:not(.later)").count();
    const before = await seen();
    await shown.getByRole("button", { name: "Next" }).click();
    await tab.getByText("After 4 of 13 rounds").first().waitFor();
    expect(await seen()).toBeGreaterThan(before);
    await shown.getByRole("button", { name: "Back" }).click();
    await expect.poll(seen).toBe(before);
    await expect.poll(() => new URL(tab.url()).searchParams.get("round")).toBe("3");
    await tab.locator("#live .written span.later").first().evaluate((span) => (span as HTMLElement).click());
    await tab.getByText("After 4 of 13 rounds").first().waitFor();
  });

  test("the laws behind a guess show on focus and on hover", async ({ open }) => {
    const tab = await open({ lang: "en", search: "run=sampled&round=2", chapter: "live" });
    const guesses = tab.locator("#live figure ol li button");
    await guesses.first().focus();
    const first = (await guesses.first().locator(".word").innerText()).trim();
    await tab.getByText(`The laws where “${first}” was guessed`).first().waitFor();
    await guesses.nth(1).hover();
    const second = (await guesses.nth(1).locator(".word").innerText()).trim();
    await tab.getByText(`The laws where “${second}” was guessed`).first().waitFor();
    expect(await guesses.nth(1).getAttribute("aria-pressed")).toBe("true");
    expect(await tab.locator("#live .heads li.mark").first().innerText()).toContain(second);
  });

  test("a run is saved, and opened again the same; what is none is refused in words", async ({ open }) => {
    const tab = await open({ lang: "en", search: "run=coupled", chapter: "live" });
    await figure(tab, "live").waitFor();
    const before = await rows(tab);
    const downloading = tab.waitForEvent("download");
    await tab.getByRole("button", { name: "Save as a file" }).click();
    const download = await downloading;
    const path = join(tmpdir(), `forerun-${process.pid}.json`);
    await download.saveAs(path);
    expect(openFile(await readFile(path, "utf8")).verifier).toBe("coupled");
    await tab.getByRole("radio", { name: "token by token" }).first().check({ force: true });
    await expect.poll(() => rows(tab)).not.toEqual(before);
    const chooser = tab.locator("#live input[type=file]");
    await chooser.setInputFiles(path);
    await tab.getByText("From the file forerun-").first().waitFor();
    expect(await rows(tab)).toEqual(before);
    await writeFile(path, "hello");
    await chooser.setInputFiles(path);
    await tab.getByText(/cannot be opened: line 1 is no JSON/).first().waitFor();
    expect(await rows(tab)).toEqual(before);
  });

  test("without a model the page says how to have one", async ({ open }) => {
    const tab = await open({ lang: "zh", chapter: "live" });
    await tab.locator("#live").getByText("forerun play").first().waitFor();
  });
});

describe.skipIf(!installed() || inject("browser") === "")("with SmolLM2 behind it", () => {
  let server: Serving;
  beforeAll(async () => {
    server = await serve();
  }, 120_000);
  afterAll(() => server.stop());

  test("a prompt is answered round by round, and every verdict follows from its numbers", async ({ open }) => {
    const tab = await open({ lang: "en", chapter: "live", address: server.address });
    await tab.getByText("Behind this page: smollm2, drafts by suffix").first().waitFor();
    await tab.getByLabel("Prompt", { exact: true }).fill("Count from one to twenty in words, and then once more.");
    await setSlider(tab.locator("#live"), /^Temperature/, 0.6);
    await setSlider(tab.locator("#live"), /^Tokens at most/, 64);
    await write(tab);
    const found = await rows(tab);
    expect(found.length).toBeGreaterThan(20);
    consistent(found, "rejection");
    const delivered = found.filter(([, , , , , , verdict]) => ["kept", "correction", "bonus"].includes(verdict ?? ""));
    const rounds = Number(found.at(-1)?.[0]);
    await setSlider(tab.locator("#live"), /^Round/, rounds);
    await tab.getByText(`After ${rounds} of ${rounds} rounds: ${delivered.length} tokens`).first().waitFor();
    expect(await figure(tab, "live").innerText()).toContain("as measured on that machine");
  });

  test("the same luck: the text is the one that the model writes without guessing", async ({ open }) => {
    const tab = await open({ lang: "en", search: "seed=5", chapter: "live", address: server.address });
    const prompt = "The sea was calm that day, and the sea was calm";
    await tab.getByLabel("Prompt", { exact: true }).fill(prompt);
    await tab.getByLabel("a text to continue").check({ force: true });
    await tab.getByLabel("by the same luck").check({ force: true });
    await write(tab);
    consistent(await rows(tab), "coupled");
    const asked = { prompt, max_tokens: 48, temperature: 0.8, seed: 5, verifier: "coupled", speculative: false };
    const plain = (await (await tab.request.post(`${server.address}v1/completions`, { data: asked })).json()) as {
      choices: { text: string }[];
    };
    const rounds = Number((await rows(tab)).at(-1)?.[0]);
    await setSlider(tab.locator("#live"), /^Round/, rounds);
    expect(await tab.locator("#live .written").textContent()).toContain(plain.choices[0]?.text);
  });

  test("it can be stopped, and what was written stays", async ({ open }) => {
    const tab = await open({ lang: "en", chapter: "live", address: server.address });
    // a line so narrow that the end is far when the first words are there
    const line = { offline: false, latency: 0, downloadThroughput: 2000, uploadThroughput: -1 };
    await (await tab.context().newCDPSession(tab)).send("Network.emulateNetworkConditions", line);
    await tab.getByLabel("Prompt", { exact: true }).fill("Tell me a long story.");
    await setSlider(tab.locator("#live"), /^Tokens at most/, 128);
    await tab.getByRole("button", { name: "Write", exact: true }).click();
    await tab.getByText("Written just now by smollm2").first().waitFor();
    await tab.getByRole("button", { name: "Stop", exact: true }).click();
    await expect.poll(() => tab.locator("#live form [role=status]").innerText()).toBe("");
    expect((await rows(tab)).length).toBeGreaterThan(0);
  });
});

describe.skipIf(!installed() || inject("browser") === "")("behind a key", () => {
  let server: Serving;
  beforeAll(async () => {
    server = await serve("--api-key", "open-sesame");
  }, 120_000);
  afterAll(() => server.stop());

  test("the page asks for it, and keeps it out of the address", async ({ open }) => {
    const tab = await open({ lang: "en", chapter: "live", address: server.address });
    await tab.getByLabel("API key").fill("open-sesame");
    await tab.getByRole("button", { name: "Use this key" }).click();
    await tab.getByText("Behind this page: smollm2").first().waitFor();
    await write(tab);
    expect(tab.url()).not.toContain("sesame");
    expect(await tab.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain("sesame");
  });
});
