import type { Shape } from "../../i18n/words";

export const en = {
  title: "The accept rule",
  lead: "Keep a drafted token with probability min(1, p/q).",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "接受规则",
  lead: "以 min(1, p/q) 的概率留下草稿词元。",
};
