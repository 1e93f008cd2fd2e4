/**
 * The ten chapters, in order. An id is a chapter's place in the page's address.
 *
 * Each is a file of scripts of its own, so that the head of the page is there at once; App loads
 * them all right after it.
 */

import type { Component } from "svelte";
import type { Lang } from "../i18n/words";
import { titles, type Id } from "./titles";

export interface Entry {
  readonly id: Id;
  readonly title: Readonly<Record<Lang, string>>;
  readonly load: () => Promise<{ default: Component }>;
}

const chapter = (id: Id, load: Entry["load"]): Entry => ({ id, title: titles[id], load });

export const chapters: readonly Entry[] = [
  chapter("waste", () => import("./01-waste/Chapter.svelte")),
  chapter("laws", () => import("./02-laws/Chapter.svelte")),
  chapter("proof", () => import("./03-proof/Chapter.svelte")),
  chapter("accept", () => import("./04-accept/Chapter.svelte")),
  chapter("residual", () => import("./05-residual/Chapter.svelte")),
  chapter("convergence", () => import("./06-convergence/Chapter.svelte")),
  chapter("sentence", () => import("./07-sentence/Chapter.svelte")),
  chapter("speed", () => import("./08-speed/Chapter.svelte")),
  chapter("live", () => import("./09-live/Chapter.svelte")),
  chapter("family", () => import("./10-family/Chapter.svelte")),
];
