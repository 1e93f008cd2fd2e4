/**
 * Once before all of them: builds the page, serves it with the policy of `forerun serve`, looks for a browser.
 *
 * Without a browser these tests are skipped, loudly; with FORERUN_REQUIRE_BROWSER=1 that is an error.
 * FORERUN_PAGE=http://… takes a page that runs already (forerun serve), and builds none.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    address: string;
    browser: string;
  }
}

const WEB = fileURLToPath(new URL("..", import.meta.url));
export const BUILT = fileURLToPath(new URL("../../src/forerun/server/site", import.meta.url));
const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"];

const KINDS: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** As src/forerun/server/page.py sends it. */
const POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/** The browser to test with; "" where there is none. */
export function browserPath(): string {
  const asked = process.env["CHROMIUM"];
  return (asked ? [asked] : PLACES).find((path) => existsSync(path)) ?? "";
}

/** Serves the built page on a free port of this machine, with a strict policy. */
export async function serve(): Promise<{ address: string; close: () => void }> {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://x").pathname));
    const file = join(BUILT, path === "/" ? "index.html" : path);
    const kind = KINDS[extname(file)];
    if (!file.startsWith(BUILT) || kind === undefined || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": kind, "content-security-policy": POLICY });
    response.end(readFileSync(file));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const at = server.address();
  if (at === null || typeof at === "string") throw new Error("no port");
  return { address: `http://127.0.0.1:${at.port}/`, close: () => server.close() };
}

export default async function setup(project: TestProject): Promise<() => void> {
  const browser = browserPath();
  project.provide("browser", browser);
  if (browser === "") {
    const message = `no Chromium found (looked at ${PLACES.join(", ")}; CHROMIUM=/path/to/one chooses)`;
    if (process.env["FORERUN_REQUIRE_BROWSER"] === "1") throw new Error(message);
    console.warn(`\n*** SKIPPED: every test of the page in a browser: ${message} ***\n`);
    project.provide("address", "");
    return () => undefined;
  }
  const given = process.env["FORERUN_PAGE"];
  if (given) {
    project.provide("address", given.endsWith("/") ? given : `${given}/`);
    return () => undefined;
  }
  // in a process of its own: within vitest it would build for development
  const environment = { ...process.env, NODE_ENV: "production" };
  execFileSync(process.execPath, ["node_modules/vite/bin/vite.js", "build", "--logLevel", "error"], { cwd: WEB, env: environment, stdio: "inherit" });
  const { address, close } = await serve();
  project.provide("address", address);
  return close;
}
