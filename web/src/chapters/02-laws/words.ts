import { Dictionary } from "../../i18n/dictionary.svelte";
import type { Shape } from "../../i18n/words";
import type { en } from "./en";

export type Words = Shape<typeof en>;

export const words = new Dictionary<Words>({
  en: async () => (await import("./en")).en,
  zh: async () => (await import("./zh")).zh,
});
