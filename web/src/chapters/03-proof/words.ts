import type { Shape } from "../../i18n/words";

export const en = {
  title: "The proof, step by step",
  lead: "Two paths lead to a word: the draft said it and it was kept, or it came in place of another. Their sum is p.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "一步一步地证明",
  lead: "得到一个词有两条路：草稿说了它而被接受，或者它顶替了别的词。两条路加起来，正好是 p。",
};
