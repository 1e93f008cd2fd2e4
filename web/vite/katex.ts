/**
 * Formulas become HTML and MathML while the page is built, so that it ships no KaTeX.
 *
 * It replaces two tagged templates (src/ui/tex.ts), in .ts and .svelte files alike:
 *
 *     tex`\beta = \sum_x [p(x) - q(x)]_+`       a formula, inline
 *     texBlock`…`                               a formula on a line of its own
 *     rich`With $\beta$ it is **rejected**.`    a sentence: $formula$, **strong**, _emphasis_, [text](https://…)
 *
 * Nothing can be interpolated: what is shown is known when the page is built. Each distinct formula is
 * a constant of the file, however many of its sentences hold it. The page's policy forbids style
 * attributes, which KaTeX writes everywhere; each distinct one becomes a class with a style sheet of
 * its own, which Vite merges. The fonts are the few that FONTS names, as woff2.
 */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import katexLibrary from "katex";
import type { Plugin } from "vite";

/** KaTeX fonts the page ships: with these all of it stays below 100 kB. */
const FONTS = ["Main-Regular", "Math-Italic", "Size1-Regular", "Size2-Regular", "Size3-Regular", "Size4-Regular"];

/** Classes that need another font: the build stops instead of showing a fallback. */
const OTHER_FONTS = /class="[^"]*\b(mathbb|textbb|mathcal|mathfrak|textfrak|mathscr|textscr|mathsf|textsf|mathtt|texttt|mathbf|textbf|boldsymbol|amsrm|mathboldsf)\b/;

const TEMPLATE = /\b(tex|texBlock|rich)`((?:[^`\\]|\\[^])*)`/g;
const STYLE = "virtual:tex-style/";
const SHEET = "virtual:katex.css";

export function katex(): Plugin {
  const sheets = new Map<string, string>(); // styles by the names of their classes
  return {
    name: "forerun:katex",
    enforce: "pre",
    resolveId: (id) => (id.startsWith(STYLE) || id === SHEET ? `\0${id}` : undefined),
    load(id) {
      if (id === `\0${SHEET}`) return sheet();
      if (!id.startsWith(`\0${STYLE}`)) return undefined;
      const name = id.slice(STYLE.length + 1, -".css".length);
      return `.${name}{${sheets.get(name) ?? ""}}`;
    },
    transform(code, id) {
      const path = id.split("?")[0] ?? id;
      if (/[?&]raw\b/.test(id)) return undefined;
      if (!/\.(ts|svelte)$/.test(path) || path.endsWith(".test.ts") || path.includes("node_modules") || path.endsWith("ui/tex.ts")) return undefined;
      const formulas = new Map<string, string>(); // of this file: their HTML by name
      const told = (message: string): never => this.error(`${path}: ${message}`);
      const constant = (source: string, block: boolean): string => {
        const html = formula(source, block, told);
        const name = `t${hash(html, 8)}`;
        formulas.set(name, html);
        return name;
      };
      const out = code.replace(TEMPLATE, (_, tag: string, source: string) => {
        if (/\$\{/.test(source)) told(`nothing can be put into a formula when the page runs: ${source}`);
        if (tag !== "rich") return `({html:${constant(source, tag === "texBlock")}})`;
        const parts = sentence(source).map((part) => ("text" in part ? JSON.stringify(part.text) : constant(part.formula, false)));
        return `({html:${parts.length > 0 ? parts.join("+") : '""'}})`;
      });
      if (out === code) return undefined;
      const styles = new Map<string, string>();
      const constants = [...formulas].map(([name, html]) => `const ${name}=${JSON.stringify(classed(html, styles))};`);
      const imports = [...styles].map(([name, style]) => {
        sheets.set(name, style);
        return `import "${STYLE}${name}.css";`;
      });
      const added = [...imports, ...constants].join("");
      if (!path.endsWith(".svelte")) return { code: `${added}${out}`, map: null };
      // once for all copies of a component
      return { code: `<script module lang="ts">${added}</script>${out}`, map: null };
    },
  };
}

type Told = (message: string) => never;

/** One formula as HTML for the eye (hidden from screen readers) and MathML for the ear. */
export function formula(source: string, block: boolean, told: Told): string {
  let html: string;
  try {
    html = katexLibrary.renderToString(source.trim(), { displayMode: block, output: "htmlAndMathml", throwOnError: true, strict: "error" });
  } catch (error) {
    return told(`not a formula: ${source} (${String(error)})`);
  }
  const other = OTHER_FONTS.exec(html);
  if (other) told(`${source} needs a font that the page does not ship (${other[1]}); use roman or italic letters`);
  // The TeX source is for copying; it doubles the size and some screen readers read it out.
  return html.replace(/<annotation encoding="application\/x-tex">[^]*?<\/annotation>/g, "");
}

/** A sentence's parts: HTML of the simplest markup, and the sources of its formulas. */
export function sentence(source: string): ({ text: string } | { formula: string })[] {
  return source
    .split(/(\$[^$]+\$)/)
    .filter((part) => part !== "")
    .flatMap((part, i, parts) => {
      const isFormula = (one: string | undefined): boolean => one !== undefined && one.startsWith("$") && one.length > 1;
      if (!isFormula(part)) return [{ text: markup(isFormula(parts[i - 1]) ? part.replace(CLOSING, "") : part) }];
      // a comma may not begin the line behind its formula; long formulas must be free to break
      const closing = CLOSING.exec(parts[i + 1] ?? "")?.[0] ?? "";
      const alone = { formula: part.slice(1, -1) };
      if (closing === "") return [alone];
      if (part.length > 24) return [alone, { text: closing }];
      return [{ text: '<span class="together">' }, alone, { text: `${closing}</span>` }];
    });
}

/** Punctuation that belongs to what stands before it. */
const CLOSING = /^[,.;:!?)\]”’，。；：！？、）」]+/u;

function markup(text: string): string {
  return text
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/\*\*([^*]+)\*\*/g, "<strong>$1</strong>")
    .replace(/(?<![\p{L}\p{N}])_([^_]+)_(?![\p{L}\p{N}])/gu, "<em>$1</em>")
    .replace(/\[([^\]]+)\]\((https:[^)\s]+|#[\w-]+)\)/g, (_, shown: string, to: string) =>
      to.startsWith("#") ? `<a href="${to}">${shown}</a>` : `<a href="${to}" rel="noreferrer">${shown}</a>`,
    );
}

/** A formula's HTML with classes in place of style attributes; adds each class and its style to `styles`. */
function classed(html: string, styles: Map<string, string>): string {
  return html.replace(/<(\w+)([^>]*?) style="([^"]*)"([^>]*)>/g, (_, element: string, before: string, style: string, after: string) => {
    const name = `k${hash(style, 6)}`;
    styles.set(name, style);
    const rest = `${before}${after}`;
    return /class="/.test(rest) ? `<${element}${rest.replace('class="', `class="${name} `)}>` : `<${element} class="${name}"${rest}>`;
  });
}

function hash(text: string, digits: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, digits);
}

/** KaTeX's style sheet, with the shipped fonts alone. */
function sheet(): string {
  const path = createRequire(import.meta.url).resolve("katex/dist/katex.min.css");
  return readFileSync(path, "utf8").replace(/@font-face\{[^}]*\}/g, (face) => {
    const file = /url\((fonts\/KaTeX_([\w-]+)\.woff2)\)/.exec(face);
    if (!file || !FONTS.includes(file[2] ?? "")) return "";
    return face.replace(/src:[^;}]*/, `src:url(katex/dist/${file[1]}) format("woff2")`);
  });
}
