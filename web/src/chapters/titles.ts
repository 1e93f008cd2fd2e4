/** The chapters' titles, as their own words have them (a test says so): the contents are there before the chapters. */

import type { Lang } from "../i18n/words";

export const titles = {
  waste: { en: "The waste", zh: "浪费" },
  laws: { en: "Two laws, one vocabulary", zh: "同一份词表，两个分布" },
  proof: { en: "The proof, step by step", zh: "一步一步地证明" },
  accept: { en: "The accept rule", zh: "接受规则" },
  residual: { en: "The residual", zh: "残差分布" },
  convergence: { en: "Convergence", zh: "收敛" },
  sentence: { en: "A sentence", zh: "一句话" },
  speed: { en: "How fast", zh: "快多少" },
  live: { en: "Live", zh: "真实运行" },
  family: { en: "The family", zh: "整个家族" },
} as const satisfies Record<string, Record<Lang, string>>;

export type Id = keyof typeof titles;
