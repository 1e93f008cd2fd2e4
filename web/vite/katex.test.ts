import { describe, expect, test } from "vitest";
import type { Plugin } from "vite";
import { formula, katex, sentence } from "./katex.ts";

const told = (message: string): never => {
  throw new Error(message);
};

function transform(code: string, id = "/src/a.ts"): string {
  const plugin = katex() as Plugin & { transform: (this: unknown, code: string, id: string) => { code: string } | undefined };
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
  const parts = sentence("**One** _two_ $x_1$ a_b_c <b> & [three](https://example.org/x) [four](#laws)");
  expect(parts).toHaveLength(3);
  expect(parts[0]).toEqual({ text: "<strong>One</strong> <em>two</em> " });
  expect(parts[1]).toEqual({ formula: "x_1" });
  const { text } = parts[2] as { text: string };
  expect(text).toContain("a_b_c &lt;b&gt; &amp;");
  expect(text).toContain('<a href="https://example.org/x" rel="noreferrer">three</a>');
  expect(text).toContain('<a href="#laws">four</a>');
});

test("punctuation stays with the short formula before it", () => {
  expect(sentence("$x$, and $y$ too")).toEqual([
    { text: '<span class="together">' },
    { formula: "x" },
    { text: ",</span>" },
    { text: " and " },
    { formula: "y" },
    { text: " too" },
  ]);
  const long = "a + b + c + d + e + f + g + h";
  expect(sentence(`$${long}$.`)).toEqual([{ formula: long }, { text: "." }, { text: "" }]);
});

describe("the plugin", () => {
  test("replaces templates by constants, one for a formula however often it is written", () => {
    const code = transform("const a = tex`\\frac{1}{2}`, b = rich`One $x$ and another $x$ & $\\frac{1}{2}$ too`;");
    expect(code).not.toMatch(/tex`|rich`/);
    expect(code.match(/const t\w{8}="<span/g)).toHaveLength(2);
    expect(code).toMatch(/html:"One "\+(t\w{8})\+" and another "\+\1\+" &amp; "\+t\w{8}\+" too"/);
  });

  test("turns style attributes into classes of style sheets", () => {
    const code = transform("const a = tex`\\frac{1}{2}`;");
    expect(code).not.toContain("style=");
    expect(code).toMatch(/^import "virtual:tex-style\/k[0-9a-f]{6}\.css";/);
    expect(code).toMatch(/class=\\"k[0-9a-f]{6} vlist\\"/);
  });

  test("puts the constants of a component before its script, once for all its copies", () => {
    const out = transform('<script lang="ts">let a = 1;</script>{tex`\\beta`}', "/src/A.svelte");
    expect(out).toMatch(/^<script module lang="ts">.*const t\w{8}=.*<\/script><script lang="ts">let a = 1;/);
  });

  test("refuses what would be put in when the page runs", () => {
    expect(() => transform("const a = tex`x_${i}`;")).toThrow("nothing can be put into a formula");
  });
});
