/** The words in the reader's language: `const w = $derived(say({ en, zh }))`. */

import { page } from "../state/page.svelte";
import type { Lang } from "./words";

export function say<T>(words: Readonly<Record<Lang, T>>): T {
  return words[page.lang];
}
