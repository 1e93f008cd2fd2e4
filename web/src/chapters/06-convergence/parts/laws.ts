/** Laws over five words, in the page's address. */

import { isLaw, page } from "../../../state/page.svelte";

export const p5 = page.param("p5", [0.35, 0.25, 0.15, 0.05, 0.2], isLaw);
export const q5 = page.param("q5", [0.1, 0.2, 0.35, 0.2, 0.15], isLaw);

export const COUNTS = [1, 10, 1000, 100_000] as const;

/** An enough to test: some word is expected fewer times than this, and chi-square is no test. */
export const ENOUGH = 5;

/** Below this p-value the page says that the law is another one. */
export const REJECT = 0.001;
