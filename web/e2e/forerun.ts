/**
 * `forerun serve` with the real model, for tests of the live chapter. The Python is that of the
 * checkout (.venv), or FORERUN_PYTHON; without one these tests are skipped, loudly, unless browsers
 * are required.
 */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PYTHON = process.env["FORERUN_PYTHON"] ?? fileURLToPath(new URL("../../.venv/bin/python", import.meta.url));

/** Whether there is a forerun to serve with. */
export function installed(): boolean {
  if (existsSync(PYTHON)) return true;
  const message = `no forerun to serve with: ${PYTHON} is not there (FORERUN_PYTHON=/path chooses)`;
  if (process.env["FORERUN_REQUIRE_BROWSER"] === "1") throw new Error(message);
  console.warn(`\n*** SKIPPED: the live chapter with a model: ${message} ***\n`);
  return false;
}

export interface Serving {
  readonly address: string;
  stop(): Promise<void>;
}

/** A server on a free port, ready to answer. */
export async function serve(...options: string[]): Promise<Serving> {
  const child = spawn(PYTHON, ["-m", "forerun", "serve", "--port", "0", ...options], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise<void>((end) => child.once("exit", () => end()));
  const said: string[] = [];
  const lines = createInterface({ input: child.stderr });
  const address = await new Promise<string>((ready, failed) => {
    lines.on("line", (line) => {
      said.push(line);
      const url = /"event": "serving".*"url": "([^"]+)"/.exec(line)?.[1];
      if (url !== undefined) ready(`${url}/`);
    });
    void ended.then(() => failed(new Error(`forerun serve ended:\n${said.slice(-20).join("\n")}`)));
  });
  return {
    address,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
