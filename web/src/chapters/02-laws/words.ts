import type { Shape } from "../../i18n/words";

export const en = {
  title: "Two laws, one vocabulary",
  lead: "The draft and the target know the same words, but not with the same probabilities.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "同一份词表，两个分布",
  lead: "草稿模型和目标模型认识同样的词，给出的概率却不同。",
};
