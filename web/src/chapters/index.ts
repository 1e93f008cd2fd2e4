/** The ten chapters, in order. A chapter's id is its place in the page's address. */

import type { Component } from "svelte";
import type { Lang } from "../i18n/words";
import Waste from "./01-waste/Chapter.svelte";
import * as waste from "./01-waste/words";
import Laws from "./02-laws/Chapter.svelte";
import * as laws from "./02-laws/words";
import Proof from "./03-proof/Chapter.svelte";
import * as proof from "./03-proof/words";
import Accept from "./04-accept/Chapter.svelte";
import * as accept from "./04-accept/words";
import Residual from "./05-residual/Chapter.svelte";
import * as residual from "./05-residual/words";
import Convergence from "./06-convergence/Chapter.svelte";
import * as convergence from "./06-convergence/words";
import Sentence from "./07-sentence/Chapter.svelte";
import * as sentence from "./07-sentence/words";
import Speed from "./08-speed/Chapter.svelte";
import * as speed from "./08-speed/words";
import Live from "./09-live/Chapter.svelte";
import * as live from "./09-live/words";
import Family from "./10-family/Chapter.svelte";
import * as family from "./10-family/words";

export interface Entry {
  readonly id: string;
  readonly words: Readonly<Record<Lang, { readonly title: string }>>;
  readonly Chapter: Component;
}

export const chapters: readonly Entry[] = [
  { id: "waste", words: waste, Chapter: Waste },
  { id: "laws", words: laws, Chapter: Laws },
  { id: "proof", words: proof, Chapter: Proof },
  { id: "accept", words: accept, Chapter: Accept },
  { id: "residual", words: residual, Chapter: Residual },
  { id: "convergence", words: convergence, Chapter: Convergence },
  { id: "sentence", words: sentence, Chapter: Sentence },
  { id: "speed", words: speed, Chapter: Speed },
  { id: "live", words: live, Chapter: Live },
  { id: "family", words: family, Chapter: Family },
];
