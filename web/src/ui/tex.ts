/**
 * Formulas and rich sentences, turned into HTML when the page is built (vite/katex.ts).
 *
 * `tex` and `rich` never run: the build replaces them by their result. Show it with <Tex html={…} />.
 */

/** HTML made by the build from the page's own sources, never from what a reader typed. */
export interface Html {
  readonly html: string;
}

/** An inline formula: tex`\beta`. Nothing can be interpolated. */
export function tex(source: TemplateStringsArray): Html {
  return notBuilt("tex", source);
}

/** A formula on a line of its own: <Tex html={texBlock`…`} block />. */
export function texBlock(source: TemplateStringsArray): Html {
  return notBuilt("texBlock", source);
}

/** A sentence with $formulas$, **strong** and _emphasised_ words, and [links](https://…). */
export function rich(source: TemplateStringsArray): Html {
  return notBuilt("rich", source);
}

function notBuilt(tag: string, source: TemplateStringsArray): never {
  throw new Error(`${tag}\`${source.raw.join("…")}\` was not replaced: is vite/katex.ts among the plugins?`);
}

/** Plain text or HTML made by the build. */
export type Prose = string | Html;
