/** What the reader has set in chapter 8: α, γ, and what a guess costs. All in the page's address. */

import { page } from "../../state/page.svelte";

export const MOST = 15; // guesses a round

const alpha = page.param("alpha", 0.7, (a) => a >= 0 && a <= 0.99);
const gamma = page.param("gamma", 4, (g) => Number.isInteger(g) && g >= 0 && g <= MOST);
const cost = page.param("c", 0.1, (c) => c >= 0 && c <= 1);

class Choice {
  get alpha(): number {
    return alpha.value;
  }
  set alpha(value: number) {
    alpha.value = value;
  }
  get gamma(): number {
    return gamma.value;
  }
  set gamma(value: number) {
    gamma.value = value;
  }
  get cost(): number {
    return cost.value;
  }
  set cost(value: number) {
    cost.value = value;
  }
}

export const choice = new Choice();
