/**
 * Dictionaries: one object of words in each language, of one shape.
 *
 *     export const en = { title: "The waste", kept: (n: number) => `${n} kept` };     en.ts
 *     export type Words = Shape<typeof en>;                                           words.ts
 *     export const zh: Words = { title: "浪费", kept: (n) => `留下 ${n} 个` };        zh.ts
 *
 * A key that is missing or of another shape in one language does not compile.
 */

import type { Html } from "../ui/tex";

export type Lang = "en" | "zh";
export const LANGS: readonly Lang[] = ["en", "zh"];

/** The names languages give themselves, and their tags for `lang` attributes. */
export const LANG_NAMES: Readonly<Record<Lang, string>> = { en: "English", zh: "中文" };
export const LANG_TAGS: Readonly<Record<Lang, string>> = { en: "en", zh: "zh-Hans" };

/** The shape of a dictionary: any text where it has text, the same parameters where it has functions. */
export type Shape<T> = T extends string
  ? string
  : T extends Html
    ? Html
    : T extends (...args: infer A) => infer R
      ? (...args: A) => Shape<R>
      : T extends readonly unknown[]
        ? { readonly [K in keyof T]: Shape<T[K]> }
        : T extends object
          ? { readonly [K in keyof T]: Shape<T[K]> }
          : T;
