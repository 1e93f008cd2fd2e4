import type { Shape } from "../../i18n/words";

export const en = {
  title: "Live",
  lead: "A real model, round by round.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "现场",
  lead: "一个真实的模型，一轮一轮地看。",
};
