import type { Shape } from "../../i18n/words";

export const en = {
  title: "The residual",
  lead: "What the draft gives too little of is exactly what a correction must give back.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "残差分布",
  lead: "草稿少给了多少，修正时就正好补回多少。",
};
