import type { Shape } from "../../i18n/words";

export const en = {
  title: "The family",
  lead: "Where the idea came from, and what grew out of it.",
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "家族",
  lead: "这个想法从哪里来，后来又长出了什么。",
};
