import type { Shape } from "../../i18n/words";

export const en = {
  title: "How fast",
  lead: "What it brings depends on how often the draft is right, and on what a guess costs.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "能快多少",
  lead: "收益取决于草稿猜中的机会，也取决于猜一次要花多少时间。",
};
