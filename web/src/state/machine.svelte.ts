/** The reader's machine, reactive: its curve once the server has said it, and its last text. */

import type { Curve } from "../core/costs";
import { stats } from "../trace/fold";
import type { Round } from "../trace/trace";
import { curveOf, pointOf, type Point } from "./machine";
import { server } from "./server.svelte";

class Machine {
  /** Of the last text that it wrote in chapter 9. */
  point: Point | null = $state.raw(null);

  get curve(): Curve | null {
    return curveOf(server.setup);
  }

  wrote(rounds: readonly Round[]): void {
    this.point = pointOf(stats(rounds), this.curve);
  }
}

export const machine = new Machine();
