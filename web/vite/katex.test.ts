import { describe, expect, test } from "vitest";
import type { Plugin } from "vite";
import { formula, katex, sentence } from "./katex.ts";

const told = (message: string): never => {
  throw new Error(message);
};

interface Transformed {
  code: string;
}

function transform(code: string, id = "/src/a.ts"): string {
  const plugin = katex() as Plugin & { transform: (this: unknown, code: string, id: string) => Transformed | undefined };
  return plugin.transform.call({ error: told }, code, id)?.code ?? code;
}

describe("formulas", () => {
  test("are HTML and MathML, without the source", () => {
    const html = formula(String.raw`\frac{p(x)}{q(x)}`, false, told);
    expect(html).toContain("<mfrac>");
    expect(html).toContain('aria-hidden="true"');
    expect(html).not.toContain("annotation");
  });

  test("that are wrong, or need a font the page does not ship, stop the build", () => {
    expect(() => formula(String.raw`\frac{`, false, told)).toThrow("not a formula");
    expect(() => formula(String.raw`\mathbb{E}`, false, told)).toThrow("a font that the page does not ship (mathbb)");
  });
});

test("a sentence has formulas, strong and emphasised words, links, and nothing else", () => {
  const html = sentence("**One** _two_ $x_1$ a_b_c <b> & [three](https://example.org/x) [four](#laws)", told);
  expect(html).toContain("<strong>One</strong> <em>two</em>");
  expect(html).toContain("a_b_c &lt;b&gt; &amp;");
  expect(html).toContain('<a href="https://example.org/x" rel="noreferrer">three</a>');
  expect(html).toContain('<a href="#laws">four</a>');
  expect(html).toContain("<msub>");
});

describe("the plugin", () => {
  test("replaces templates, and turns style attributes into classes of style sheets", () => {
    const out = transform("const a = tex`\\frac{1}{2}`;");
    expect(out).not.toContain("tex`");
    expect(out).not.toContain("style=");
    expect(out).toMatch(/^import "virtual:tex-style\/k[0-9a-f]{6}\.css";/);
    expect(out).toMatch(/class=\\"k[0-9a-f]{6} vlist\\"/);
  });

  test("puts the imports of a component inside its script", () => {
    const out = transform('<script lang="ts">let a = 1;</script>{tex`\\frac{1}{2}`}', "/src/A.svelte");
    expect(out).toMatch(/^<script lang="ts">import "virtual:tex-style/);
  });

  test("refuses what would be put in when the page runs", () => {
    expect(() => transform("const a = tex`x_${i}`;")).toThrow("nothing can be put into a formula");
  });
});
