/** What the build holds, gzipped as the server sends it, stays within its budget; loading.test.ts says when it is fetched. */

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

describe("budgets", () => {
  test("style sheets 15 kB, fonts 100 kB", () => {
    expect(kilobytes(".css", gzipped)).toBeLessThanOrEqual(15);
    expect(kilobytes(".woff2", (file) => statSync(file).size)).toBeLessThanOrEqual(100);
  });

  test("no chapter is heavier than 13 kB, and its words in a language than 8; all there is in a language than 125", () => {
    const files = (start: string): string[] => readdirSync(assets).filter((name) => name.startsWith(start) && name.endsWith(".js"));
    expect(files("Chapter-")).toHaveLength(10);
    for (const name of files("Chapter-")) expect(gzipped(join(assets, name)) / 1000, name).toBeLessThanOrEqual(13);
    for (const lang of ["en-", "zh-"]) {
      expect(files(lang)).toHaveLength(10);
      for (const name of files(lang)) expect(gzipped(join(assets, name)) / 1000, name).toBeLessThanOrEqual(8);
      const others = files(lang === "en-" ? "zh-" : "en-").reduce((sum, name) => sum + gzipped(join(assets, name)) / 1000, 0);
      expect(kilobytes(".js", gzipped) - others, lang).toBeLessThanOrEqual(125);
    }
  });

  test("nothing is written into the page that the server's policy forbids", () => {
    const page = readFileSync(join(BUILT, "index.html"), "utf8");
    expect(page).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?:/);
    expect(page).toContain('data-server="none"');
  });
});
