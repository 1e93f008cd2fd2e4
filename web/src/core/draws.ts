/**
 * All randomness is an argument: verifiers ask a source of draws, and do not know whether it is
 * chance, a recording, or an enumeration of every outcome (enumerate.ts).
 */

import { race } from "./coupled";
import { inverseCdf, type Law } from "./law";
import { exponential, uniformAt } from "./random";

export interface Draws {
  /** True with `probability`; the coin of a drafted node. */
  accept(probability: number, node: number): boolean;
  /** A token drawn from `law` by fresh noise. */
  draw(law: Law): number;
  /** A token from `law` by the exponentials of the position after drafted tokens `path`. */
  race(law: Law, path: readonly number[], who: "draft" | "target"): number;
}

/** Seeded draws of one round that starts at an absolute position; they remember their coins. */
export class SeededDraws implements Draws {
  readonly seed: number;
  readonly round: number;
  readonly position: number;
  readonly coins = new Map<number, number>();
  #drawn = 0;

  constructor(seed: number, round: number, position: number) {
    this.seed = seed;
    this.round = round;
    this.position = position;
  }

  accept(probability: number, node: number): boolean {
    const coin = uniformAt(this.seed, `accept ${this.round}`, node);
    this.coins.set(node, coin);
    return coin < probability;
  }

  draw(law: Law): number {
    return inverseCdf(law, uniformAt(this.seed, `draw ${this.round}`, this.#drawn++));
  }

  race(law: Law, path: readonly number[]): number {
    return race(law, this.exponentials(path.length, law.length));
  }

  /** The noise of a position: a function of the seed and the position, never of the round. */
  exponentials(ahead: number, count: number): number[] {
    const stream = `race ${this.position + ahead}`;
    return Array.from({ length: count }, (_, x) => exponential(uniformAt(this.seed, stream, x)));
  }
}
