/**
 * Many samples without a frozen page: as many a frame as fit into a few milliseconds. What comes out
 * is a function of seed, stream and number of samples alone, never of how fast the machine is.
 */

import { untrack } from "svelte";
import { Random } from "../core/random";

/** Milliseconds of a frame that sampling may take. */
const BUDGET = 8;

export class Tally {
  counts: number[] = $state.raw([]);
  n: number = $state(0);
  goal: number = $state(0);
  #random: Random | null = null;
  #one: (random: Random) => number = () => 0;
  #frame = 0;

  get running(): boolean {
    return this.n < this.goal;
  }

  /** Forget, and take `goal` samples of `one`, which gives the index of what it counted. */
  begin(size: number, seed: number, stream: string, goal: number, one: (random: Random) => number): void {
    this.stop();
    this.#random = new Random(seed, stream);
    this.#one = one;
    this.counts = Array.from({ length: size }, () => 0);
    this.n = 0;
    this.goal = goal;
    untrack(() => this.#work()); // whoever begins in an effect does not depend on what is counted
  }

  /** How many samples were asked for last; not reactive to whoever asks. */
  get asked(): number {
    return untrack(() => this.goal);
  }

  /** Go on with the same samples until there are `goal`. */
  more(goal: number): void {
    this.stop();
    this.goal = Math.max(goal, untrack(() => this.n));
    untrack(() => this.#work());
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
  }

  #work(): void {
    const random = this.#random;
    if (random === null) return;
    const until = performance.now() + BUDGET;
    const counts = [...this.counts];
    let n = this.n;
    while (n < this.goal) {
      const found = this.#one(random);
      counts[found] = (counts[found] ?? 0) + 1;
      n += 1;
      if (n % 64 === 0 && performance.now() > until) break;
    }
    this.counts = counts;
    this.n = n;
    if (n < this.goal) this.#frame = requestAnimationFrame(() => this.#work());
  }
}
