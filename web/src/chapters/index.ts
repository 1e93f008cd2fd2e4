/**
 * The ten chapters, in order. An id is a chapter's place in the page's address.
 *
 * Each is a file of scripts of its own, and its words are one more in each language: App fetches them
 * when they are about to be seen, and the rest when the browser is idle.
 */

import type { Component } from "svelte";
import type { Lang } from "../i18n/words";
import { words as waste } from "./01-waste/words";
import { words as laws } from "./02-laws/words";
import { words as proof } from "./03-proof/words";
import { words as accept } from "./04-accept/words";
import { words as residual } from "./05-residual/words";
import { words as convergence } from "./06-convergence/words";
import { words as sentence } from "./07-sentence/words";
import { words as speed } from "./08-speed/words";
import { words as live } from "./09-live/words";
import { words as family } from "./10-family/words";
import { titles, type Id } from "./titles";

interface Fetched {
  fetch(): Promise<void>;
}

export interface Entry {
  readonly id: Id;
  readonly title: Readonly<Record<Lang, string>>;
  /** The chapter, ready to be drawn. */
  readonly load: () => Promise<Component>;
}

function chapter(id: Id, words: readonly Fetched[], code: () => Promise<{ default: Component }>): Entry {
  const load = async (): Promise<Component> => {
    const [module] = await Promise.all([code(), ...words.map((each) => each.fetch())]);
    return module.default;
  };
  return { id, title: titles[id], load };
}

export const chapters: readonly Entry[] = [
  chapter("waste", [waste], () => import("./01-waste/Chapter.svelte")),
  chapter("laws", [laws], () => import("./02-laws/Chapter.svelte")),
  chapter("proof", [proof], () => import("./03-proof/Chapter.svelte")),
  chapter("accept", [accept], () => import("./04-accept/Chapter.svelte")),
  chapter("residual", [residual], () => import("./05-residual/Chapter.svelte")),
  chapter("convergence", [convergence], () => import("./06-convergence/Chapter.svelte")),
  chapter("sentence", [sentence], () => import("./07-sentence/Chapter.svelte")),
  // which shows chapter 1's choice of measured times too
  chapter("speed", [speed, waste], () => import("./08-speed/Chapter.svelte")),
  chapter("live", [live], () => import("./09-live/Chapter.svelte")),
  chapter("family", [family], () => import("./10-family/Chapter.svelte")),
];
