import type { Shape } from "../../i18n/words";

export const en = {
  title: "A sentence",
  lead: "Four drafted tokens, one pass of the target.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "一句话",
  lead: "四个草稿词元，目标模型只跑一遍。",
};
