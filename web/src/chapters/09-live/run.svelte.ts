/** The run that the chapter shows, and where it comes from: a recording, a file, or the server. */

import { machine } from "../../state/machine.svelte";
import { server } from "../../state/server.svelte";
import { openFile, readRecording, type Recording } from "../../trace/recording";
import { ApiError, write, type Wish } from "../../trace/server";
import type { Round } from "../../trace/trace";
import { telling } from "./verdict";

export const RECORDINGS = ["sampled", "block", "suffix", "coupled"] as const;
export type Name = (typeof RECORDINGS)[number];

export type Source = { kind: "recording"; name: Name } | { kind: "file"; name: string } | { kind: "live" };

export class Run {
  shown: Recording | undefined = $state.raw(undefined);
  source: Source | undefined = $state.raw(undefined);
  /** The round that is looked at. */
  at: number = $state(0);
  writing: boolean = $state(false);
  /** Why the last attempt failed. */
  failure: string = $state("");
  #stop: AbortController | undefined;
  #latest = 0;

  get rounds(): readonly Round[] {
    return this.shown?.rounds ?? [];
  }

  #show(found: Recording, source: Source, at = telling(found.rounds)): void {
    this.shown = found;
    this.source = source;
    this.at = Math.min(at, Math.max(0, found.rounds.length - 1));
  }

  /** A recording that comes with the page; fetched when it is first wanted. */
  async load(name: Name, at?: number): Promise<void> {
    const mine = ++this.#latest;
    this.stop();
    const response = await fetch(`recordings/${name}.json`);
    const found = readRecording(await response.json());
    if (mine === this.#latest) this.#show(found, { kind: "recording", name }, at);
  }

  /** TypeError for a file that is none of ours. */
  async open(file: File): Promise<void> {
    const found = openFile(await file.text());
    this.#latest++;
    this.stop();
    this.#show(found, { kind: "file", name: file.name });
  }

  /** Has the server write; rounds show as they come. What goes wrong is in `failure`. */
  async write(wish: Wish): Promise<void> {
    this.#latest++;
    this.stop();
    const stop = (this.#stop = new AbortController());
    const { setup } = server;
    let found: Recording = {
      ...wish,
      model: setup?.model ?? "",
      recorded: new Date().toISOString().slice(0, 10),
      ...(setup === undefined ? {} : { machine: setup.processor }),
      ...(setup?.costs ? { costs: setup.costs } : {}),
      ...(setup?.drafters.length ? { drafter: setup.drafters.join("+") } : {}),
      text: "",
      words: {},
      rounds: [],
    };
    this.writing = true;
    this.failure = "";
    try {
      for await (const piece of write(wish, server.key, stop.signal)) {
        found = {
          ...found,
          text: found.text + piece.text,
          words: { ...found.words, ...piece.words },
          rounds: [...found.rounds, ...piece.rounds],
        };
        if (piece.rounds.length > 0) this.#show(found, { kind: "live" }, found.rounds.length - 1);
      }
      if (found.rounds.length > 0) this.#show(found, { kind: "live" });
      machine.wrote(found.rounds);
    } catch (error) {
      if (stop.signal.aborted) return;
      if (error instanceof ApiError && error.status === 401) server.setup = undefined;
      this.failure = error instanceof Error ? error.message : String(error);
    } finally {
      if (this.#stop === stop) this.writing = false;
    }
  }

  stop(): void {
    this.#stop?.abort();
    this.writing = false;
  }
}
