import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { katex } from "./vite/katex.ts";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  plugins: [katex(), svelte()],
  base: "./",
  build: {
    // The Python package serves this folder and ships it; git ignores it.
    outDir: here("../src/forerun/server/site"),
    emptyOutDir: true,
    target: ["chrome123", "firefox121", "safari17.5"],
    // The page's policy is default-src 'self': no data: fonts, no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: {
      // what several chapters share comes with the head of the page, in one file
      output: { codeSplitting: { groups: [{ name: "shared", minShareCount: 2 }] } },
    },
  },
  server: { fs: { allow: [here(".")] } },
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          environment: "node",
          include: ["src/**/*.test.ts", "vite/**/*.test.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          environment: "node",
          include: ["e2e/**/*.test.ts"],
          globalSetup: ["e2e/setup.ts"],
          // these find what hangs; a slow machine is none
          testTimeout: 300_000,
          hookTimeout: 120_000,
          expect: { poll: { timeout: 120_000 } },
          // One Chromium at a time: the machines that test this have two cores.
          fileParallelism: false,
        },
      },
      {
        extends: true,
        test: { name: "pictures", include: ["pictures/take.test.ts"], globalSetup: ["e2e/setup.ts"], testTimeout: 600_000 },
      },
    ],
  },
});
