/**
 * What a round is worth: tokens, and tokens per second.
 *
 * α is the probability that a drafted token is kept, here the same at every position and independent
 * of the others (the i.i.d. case; real text is not so). γ tokens are drafted a round. Costs are in
 * plain target passes: c of one drafted token, `pass(n)` of a target pass over n rows, pass(1) = 1.
 */

export type PassCost = (rows: number) => number;

/** A pass costs the same however many rows it checks: reading the weights is all. */
export const FLAT: PassCost = () => 1;

/** 1 + Σ s_i, s_i being the probability that at least i drafts are kept. */
export function tokensFrom(survival: readonly number[]): number {
  return survival.reduce((sum, s) => sum + s, 1);
}

/** (1 − α^(γ+1)) / (1 − α): tokens a round, in the i.i.d. case (Leviathan et al. 2023, equation 1). */
export function expectedTokens(alpha: number, gamma: number): number {
  return tokensFrom(Array.from({ length: gamma }, (_, i) => alpha ** (i + 1)));
}

/** Times as fast as plain decoding; below 1 it loses. */
export function speedup(alpha: number, gamma: number, c: number, pass: PassCost = FLAT): number {
  return (expectedTokens(alpha, gamma) * pass(1)) / (gamma * c + pass(gamma + 1));
}

/** The γ from 0 to `most` with the highest speedup; of equals the smaller. */
export function bestGamma(alpha: number, c: number, most: number, pass: PassCost = FLAT): number {
  let best = 0;
  for (let gamma = 1; gamma <= most; gamma++) {
    if (speedup(alpha, gamma, c, pass) > speedup(alpha, best, c, pass)) best = gamma;
  }
  return best;
}
