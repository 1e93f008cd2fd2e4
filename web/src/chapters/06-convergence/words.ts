import type { Shape } from "../../i18n/words";

export const en = {
  title: "Convergence",
  lead: "Draw a hundred thousand times, and look for a difference.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "收敛",
  lead: "抽上十万次，看看还能不能找出差别。",
};
