/** The words that chapters 2 to 6 draw from, in both languages. */

import type { Lang } from "../i18n/words";

export const WORDS = ["love", "like", "meh", "dislike", "hate"] as const;
export type Word = (typeof WORDS)[number];

export const NAMES: Readonly<Record<Lang, Readonly<Record<Word, string>>>> = {
  en: { love: "love", like: "like", meh: "meh", dislike: "dislike", hate: "hate" },
  zh: { love: "爱", like: "喜欢", meh: "无感", dislike: "讨厌", hate: "恨" },
};

export const TWO: readonly Word[] = ["love", "hate"];
export const THREE: readonly Word[] = ["love", "meh", "hate"];
