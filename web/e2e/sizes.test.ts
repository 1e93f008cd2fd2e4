/** What a reader's browser fetches, gzipped as the server sends it, stays within its budget. */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe } from "vitest";
import { expect, test } from "./page.ts";
import { BUILT } from "./setup.ts";

const assets = join(BUILT, "assets");
const kilobytes = (ending: string, size: (file: string) => number): number =>
  readdirSync(assets).filter((name) => name.endsWith(ending)).reduce((sum, name) => sum + size(join(assets, name)), 0) / 1000;
const gzipped = (file: string): number => gzipSync(readFileSync(file)).length;

/** The scripts that index.html names, and what they import at once. */
function first(): string[] {
  const page = readFileSync(join(BUILT, "index.html"), "utf8");
  const found = new Set([...page.matchAll(/(?:src|href)="\.\/assets\/([^"]+\.js)"/g)].map((match) => match[1] ?? ""));
  for (const name of found) {
    const code = readFileSync(join(assets, name), "utf8");
    for (const match of code.matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) found.add(match[1] ?? "");
  }
  return [...found];
}

describe("budgets", () => {
  test("scripts of the first view 60 kB, style sheets 15 kB, fonts 100 kB", () => {
    const scripts = first();
    expect(scripts.length).toBeGreaterThan(0);
    expect(scripts.reduce((sum, name) => sum + gzipped(join(assets, name)), 0) / 1000).toBeLessThanOrEqual(60);
    expect(kilobytes(".css", gzipped)).toBeLessThanOrEqual(15);
    expect(kilobytes(".woff2", (file) => statSync(file).size)).toBeLessThanOrEqual(100);
  });

  test("no chapter is heavier than 20 kB, and all scripts together stay below 150 kB", () => {
    const all = readdirSync(assets).filter((name) => name.endsWith(".js"));
    for (const name of all.filter((name) => !first().includes(name))) expect(gzipped(join(assets, name)) / 1000, name).toBeLessThanOrEqual(20);
    expect(kilobytes(".js", gzipped)).toBeLessThanOrEqual(150);
  });

  test("nothing is written into the page that the server's policy forbids", () => {
    const page = readFileSync(join(BUILT, "index.html"), "utf8");
    expect(page).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?:/);
    expect(page).toContain('data-server="none"');
  });
});
