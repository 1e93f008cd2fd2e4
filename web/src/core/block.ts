/**
 * Block verification: the whole drafted block is judged at once, and never keeps fewer tokens.
 *
 *     P_i = min(P_{i−1} · p_i(x_i) / q_i(x_i), 1),  P_0 = 1
 *     Z_i = Σ_x [P_i · p_{i+1}(x) − q_{i+1}(x)]+               for i < γ
 *     h_i = Z_i / (Z_i + 1 − P_i)  for i < γ,                  h_γ = P_γ
 *
 * Every i has a coin of its own; the LARGEST i whose coin passes is kept. The next token comes from
 * [P_τ · p_{τ+1} − q_{τ+1}]+, or is the bonus. (Sun et al. 2024, arXiv 2403.10444, algorithm 2.)
 */

import { draftMass, excess, residual } from "./acceptance";
import type { Draws } from "./draws";
import { mass, type Law } from "./law";
import { at, type Proposal, type Verdict } from "./round";

export interface BlockStep {
  /** P_i: how much of the path so far the target would have written itself, at most 1. */
  readonly path: number;
  /** h_i: probability that the coin of i passes. */
  readonly acceptance: number;
}

/** P_i and h_i of every drafted token. */
export function blockSteps(proposal: Proposal, p: readonly Law[]): BlockStep[] {
  const count = proposal.tokens.length;
  let path = 1;
  return proposal.tokens.map((x, i) => {
    const draft = draftMass(at(proposal.q, i), x);
    path = Math.min(draft > 0 ? (path * mass(at(p, i), x)) / draft : 0, 1);
    if (i + 1 === count) return { path, acceptance: path };
    const z = excess(at(p, i + 1), at(proposal.q, i + 1), at(proposal.tokens, i + 1), path);
    return { path, acceptance: z > 0 ? z / (z + (1 - path)) : 0 };
  });
}

export function block(proposal: Proposal, p: readonly Law[], draws: Draws): Verdict {
  const steps = blockSteps(proposal, p);
  let accepted = 0;
  for (const [i, step] of steps.entries()) {
    if (draws.accept(step.acceptance, i)) accepted = i + 1;
  }
  const bonus = accepted === steps.length;
  const scale = accepted === 0 ? 1 : at(steps, accepted - 1).path;
  const law = bonus
    ? at(p, accepted)
    : residual(at(p, accepted), at(proposal.q, accepted), at(proposal.tokens, accepted), scale);
  return {
    path: Array.from({ length: accepted }, (_, i) => i),
    token: draws.draw(law),
    kind: bonus ? "bonus" : "residual",
    law,
    acceptance: steps.map((step) => step.acceptance),
  };
}
