/** Is the page being printed, and does the reader want less motion? Both are reactive. */

import { flushSync } from "svelte";

class Media {
  /** Figures open every step while this holds. */
  printing: boolean = $state(false);
  /** Jump to where an animation ends. */
  still: boolean = $state(false);

  constructor() {
    if (typeof matchMedia === "undefined") return;
    const motion = matchMedia("(prefers-reduced-motion: reduce)");
    this.still = motion.matches;
    motion.addEventListener("change", () => (this.still = motion.matches));
    const print = matchMedia("print");
    this.printing = print.matches;
    // the browser takes its picture right after these, so the page must be ready when they return
    const set = (on: boolean): void => {
      flushSync(() => {
        this.printing = on;
      });
    };
    print.addEventListener("change", () => set(print.matches));
    addEventListener("beforeprint", () => set(true));
    addEventListener("afterprint", () => set(false));
  }
}

export const media = new Media();
