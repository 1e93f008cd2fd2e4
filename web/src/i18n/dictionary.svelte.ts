/**
 * A chapter's words, of which only the reader's language is fetched.
 *
 *     export const words = new Dictionary<Words>({ en: async () => (await import("./en")).en, zh: … });
 *     await words.fetch();                      // before the chapter is drawn
 *     const w = $derived(words.now);            // within it
 */

import { page } from "../state/page.svelte";
import type { Lang } from "./words";

/** Dictionaries that somebody fetched, and the language they are to have when the page turns to it. */
const used = new Set<Dictionary<unknown>>();
let wanted: Lang = page.lang;

export class Dictionary<W> {
  readonly #from: Readonly<Record<Lang, () => Promise<W>>>;
  #here: Partial<Record<Lang, W>> = $state.raw({});

  constructor(from: Readonly<Record<Lang, () => Promise<W>>>) {
    this.#from = from;
  }

  /** The words in the reader's language, once they were fetched. */
  get now(): W {
    const found = this.#here[page.lang];
    if (found === undefined) throw new Error(`words in ${page.lang} were not fetched`);
    return found;
  }

  async fetch(): Promise<void> {
    used.add(this);
    for (const lang of new Set([page.lang, wanted])) {
      const words = await this.#from[lang]();
      this.#here = { ...this.#here, [lang]: words };
    }
  }
}

/** Turns the page to another language, all at once: when all words that it shows are there. Rejects where they cannot be had. */
export async function speak(lang: Lang): Promise<void> {
  wanted = lang;
  try {
    await Promise.all([...used].map((dictionary) => dictionary.fetch()));
    if (wanted === lang) page.lang = lang;
  } finally {
    if (wanted === lang) wanted = page.lang;
  }
}
