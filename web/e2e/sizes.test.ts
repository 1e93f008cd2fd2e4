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

describe("budgets", () => {
  test("scripts 60 kB, style sheets 15 kB, fonts 100 kB", () => {
    expect(kilobytes(".js", gzipped)).toBeLessThanOrEqual(60);
    expect(kilobytes(".css", gzipped)).toBeLessThanOrEqual(15);
    expect(kilobytes(".woff2", (file) => statSync(file).size)).toBeLessThanOrEqual(100);
  });

  test("nothing is written into the page that the server's policy forbids", () => {
    const page = readFileSync(join(BUILT, "index.html"), "utf8");
    expect(page).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?:/);
    expect(page).toContain('data-server="none"');
  });
});
