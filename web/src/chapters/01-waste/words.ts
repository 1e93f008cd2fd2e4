import type { Shape } from "../../i18n/words";

export const en = {
  title: "The waste",
  lead: "A language model reads all of its weights to write one token. Checking several tokens at once costs about the same.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "浪费",
  lead: "语言模型每写一个词元，都要把全部权重读一遍；而一次核对好几个词元，花的时间几乎一样。",
};
