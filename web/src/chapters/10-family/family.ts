/**
 * The field's papers: who, when, where, what is promised, and what forerun has of it.
 *
 * `year` is that of the paper's first version. `lossless` is what the paper proves or claims of the
 * method as published: 'yes' (the target's law at any temperature), 'greedy' (the target's greedy
 * text), 'choice' (one of its criteria keeps the law, the one it recommends for sampling does not),
 * 'no'. `forerun` has its verifiers and drafters by name, where it has the method itself and not
 * only its way of judging. Sentences are in en.ts and zh.ts, by id. `from` draws the lines.
 */

export type Lossless = "yes" | "greedy" | "choice" | "no";
export type Branch =
  | "idea"
  | "model"
  | "lookup"
  | "heads"
  | "self"
  | "parallel"
  | "trees"
  | "judging"
  | "overlap";

type Name =
  | "rejection"
  | "block"
  | "coupled"
  | "recursive"
  | "greedy_plus_one"
  | "traversal"
  | "model"
  | "intersection"
  | "string-match"
  | "tree"
  | "sampled-tree"
  | "greedy-plus-one-tree"
  | "ngram"
  | "suffix"
  | "suffix-tree"
  | "prediction"
  | "head"
  | "head-tree"
  | "head-joined-tree"
  | "head-sampled-tree"
  | "head-greedy-plus-one-tree"
  | "layer-skip";

interface Entry {
  id: string;
  name: string;
  year: number;
  authors: string;
  arxiv?: string;
  link?: string; // where there is no paper
  branch: Branch;
  lossless: Lossless;
  forerun?: readonly Name[];
  from?: readonly string[];
}

export const branches: readonly Branch[] = [
  "idea",
  "model",
  "lookup",
  "heads",
  "self",
  "parallel",
  "trees",
  "judging",
  "overlap",
];

export const family = [
  { id: "blockwise", name: "Blockwise Parallel Decoding", year: 2018, authors: "Stern, Shazeer, Uszkoreit", arxiv: "1811.03115", branch: "idea", lossless: "greedy", forerun: ["head"] },
  { id: "aggressive", name: "Aggressive Decoding", year: 2021, authors: "Sun et al.", arxiv: "2106.04970", branch: "lookup", lossless: "greedy", forerun: ["prediction"], from: ["blockwise"] },
  { id: "specdec", name: "SpecDec", year: 2022, authors: "Xia et al.", arxiv: "2203.16487", branch: "idea", lossless: "no", from: ["blockwise"] },
  { id: "leviathan", name: "Speculative Decoding", year: 2022, authors: "Leviathan, Kalman, Matias", arxiv: "2211.17192", branch: "idea", lossless: "yes", forerun: ["rejection"], from: ["blockwise"] },
  { id: "chen", name: "Speculative Sampling", year: 2023, authors: "Chen et al.", arxiv: "2302.01318", branch: "idea", lossless: "yes", forerun: ["rejection"], from: ["blockwise"] },

  { id: "draft", name: "A small model drafts", year: 2022, authors: "Leviathan, Kalman, Matias", arxiv: "2211.17192", branch: "model", lossless: "yes", forerun: ["model"], from: ["leviathan"] },
  { id: "bild", name: "Big Little Decoder", year: 2023, authors: "Kim et al.", arxiv: "2302.07863", branch: "model", lossless: "no", from: ["specdec"] },
  { id: "online", name: "Online Speculative Decoding", year: 2023, authors: "Liu et al.", arxiv: "2310.07177", branch: "model", lossless: "yes", from: ["draft"] },
  { id: "distill", name: "DistillSpec", year: 2023, authors: "Zhou et al.", arxiv: "2310.08461", branch: "model", lossless: "yes", from: ["draft"] },
  { id: "cascade", name: "Cascade Speculative Drafting", year: 2023, authors: "Chen et al.", arxiv: "2312.11462", branch: "model", lossless: "yes", from: ["draft"] },
  { id: "vocabularies", name: "Heterogeneous Vocabularies", year: 2025, authors: "Timor et al.", arxiv: "2502.05202", branch: "model", lossless: "yes", forerun: ["intersection", "string-match"], from: ["draft"] },

  { id: "llma", name: "LLMA", year: 2023, authors: "Yang et al.", arxiv: "2304.04487", branch: "lookup", lossless: "greedy", forerun: ["prediction"], from: ["aggressive"] },
  { id: "lookup", name: "Prompt Lookup Decoding", year: 2023, authors: "Saxena", link: "https://github.com/apoorvumang/prompt-lookup-decoding", branch: "lookup", lossless: "yes", forerun: ["ngram"], from: ["llma"] },
  { id: "rest", name: "REST", year: 2023, authors: "He et al.", arxiv: "2311.08252", branch: "lookup", lossless: "yes", from: ["lookup"] },
  { id: "recycling", name: "Token Recycling", year: 2024, authors: "Luo et al.", arxiv: "2408.08696", branch: "lookup", lossless: "yes", from: ["lookup"] },
  { id: "suffix", name: "SuffixDecoding", year: 2024, authors: "Oliaro et al.", arxiv: "2411.04975", branch: "lookup", lossless: "yes", forerun: ["suffix", "suffix-tree"], from: ["lookup"] },

  { id: "medusa", name: "Medusa", year: 2024, authors: "Cai et al.", arxiv: "2401.10774", branch: "heads", lossless: "choice", forerun: ["head"], from: ["blockwise"] },
  { id: "eagle", name: "EAGLE", year: 2024, authors: "Li et al.", arxiv: "2401.15077", branch: "heads", lossless: "yes", from: ["medusa", "specinfer"] },
  { id: "hydra", name: "Hydra", year: 2024, authors: "Ankner et al.", arxiv: "2402.05109", branch: "heads", lossless: "choice", forerun: ["head"], from: ["medusa"] },
  { id: "mtp", name: "Multi-Token Prediction", year: 2024, authors: "Gloeckle et al.", arxiv: "2404.19737", branch: "heads", lossless: "greedy", from: ["blockwise"] },
  { id: "eagle2", name: "EAGLE-2", year: 2024, authors: "Li et al.", arxiv: "2406.16858", branch: "heads", lossless: "yes", forerun: ["head-tree", "head-joined-tree"], from: ["eagle"] },
  { id: "deepseek", name: "DeepSeek-V3 MTP", year: 2024, authors: "DeepSeek-AI", arxiv: "2412.19437", branch: "heads", lossless: "yes", from: ["mtp", "eagle"] },
  { id: "eagle3", name: "EAGLE-3", year: 2025, authors: "Li et al.", arxiv: "2503.01840", branch: "heads", lossless: "yes", forerun: ["head"], from: ["eagle2"] },

  { id: "jacobi", name: "Jacobi Decoding", year: 2023, authors: "Santilli et al.", arxiv: "2305.10427", branch: "self", lossless: "greedy" },
  { id: "selfdraft", name: "Draft & Verify", year: 2023, authors: "Zhang et al.", arxiv: "2309.08168", branch: "self", lossless: "yes", forerun: ["layer-skip"], from: ["leviathan"] },
  { id: "lookahead", name: "Lookahead Decoding", year: 2024, authors: "Fu et al.", arxiv: "2402.02057", branch: "self", lossless: "yes", from: ["jacobi"] },
  { id: "layerskip", name: "LayerSkip", year: 2024, authors: "Elhoushi et al.", arxiv: "2404.16710", branch: "self", lossless: "yes", from: ["selfdraft"] },

  { id: "pass", name: "PaSS", year: 2023, authors: "Monea, Joulin, Grave", arxiv: "2311.13581", branch: "parallel", lossless: "yes", from: ["leviathan"] },
  { id: "specdiff", name: "Speculative Diffusion Decoding", year: 2024, authors: "Christopher et al.", arxiv: "2408.05636", branch: "parallel", lossless: "yes", from: ["draft"] },
  { id: "pard", name: "PARD", year: 2025, authors: "An et al.", arxiv: "2504.18583", branch: "parallel", lossless: "yes", from: ["draft"] },
  { id: "peagle", name: "P-EAGLE", year: 2026, authors: "Hui et al.", arxiv: "2602.01469", branch: "parallel", lossless: "yes", from: ["eagle3"] },
  { id: "dflash", name: "DFlash", year: 2026, authors: "Chen, Liang, Liu", arxiv: "2602.06036", branch: "parallel", lossless: "yes", from: ["specdiff", "eagle3"] },
  { id: "dspark", name: "DSpark", year: 2026, authors: "Cheng et al.", arxiv: "2607.05147", branch: "parallel", lossless: "yes", from: ["dflash"] },

  { id: "specinfer", name: "SpecInfer", year: 2023, authors: "Miao et al.", arxiv: "2305.09781", branch: "trees", lossless: "yes", forerun: ["tree"], from: ["leviathan"] },
  { id: "spectr", name: "SpecTr", year: 2023, authors: "Sun et al.", arxiv: "2310.15141", branch: "trees", lossless: "yes", from: ["leviathan"] },
  { id: "sequoia", name: "Sequoia", year: 2024, authors: "Chen et al.", arxiv: "2402.12374", branch: "trees", lossless: "yes", forerun: ["sampled-tree"], from: ["specinfer"] },
  { id: "rsd", name: "Recursive Speculative Decoding", year: 2024, authors: "Jeon et al.", arxiv: "2402.14160", branch: "trees", lossless: "yes", forerun: ["recursive", "sampled-tree", "head-sampled-tree"], from: ["specinfer"] },
  { id: "multidraft", name: "Optimal Multi-Draft", year: 2025, authors: "Hu et al.", arxiv: "2502.18779", branch: "trees", lossless: "yes", forerun: ["greedy_plus_one", "greedy-plus-one-tree", "head-greedy-plus-one-tree"], from: ["spectr"] },
  { id: "traversal", name: "Traversal Verification", year: 2025, authors: "Weng et al.", arxiv: "2505.12398", branch: "trees", lossless: "yes", forerun: ["traversal"], from: ["rsd", "block"] },

  { id: "lenience", name: "Lenience", year: 2022, authors: "Leviathan, Kalman, Matias", arxiv: "2211.17192", branch: "judging", lossless: "no", from: ["leviathan"] },
  { id: "typical", name: "Typical acceptance", year: 2024, authors: "Cai et al.", arxiv: "2401.10774", branch: "judging", lossless: "no", from: ["medusa"] },
  { id: "block", name: "Block Verification", year: 2024, authors: "Sun et al.", arxiv: "2403.10444", branch: "judging", lossless: "yes", forerun: ["block"], from: ["leviathan"] },
  { id: "coupling", name: "Coupling without Communication", year: 2024, authors: "Daliri, Musco, Suresh", arxiv: "2408.07978", branch: "judging", lossless: "yes", forerun: ["coupled"], from: ["leviathan"] },
  { id: "judge", name: "Judge Decoding", year: 2025, authors: "Bachmann et al.", arxiv: "2501.19309", branch: "judging", lossless: "no", from: ["leviathan"] },
  { id: "races", name: "Exponential Races", year: 2025, authors: "Kobus, Gündüz", arxiv: "2504.15475", branch: "judging", lossless: "yes", from: ["coupling"] },

  { id: "dsi", name: "Distributed Speculative Inference", year: 2024, authors: "Timor et al.", arxiv: "2405.14105", branch: "overlap", lossless: "yes", from: ["leviathan"] },
  { id: "specexec", name: "SpecExec", year: 2024, authors: "Svirschevski et al.", arxiv: "2406.02532", branch: "overlap", lossless: "yes", from: ["specinfer"] },
  { id: "pearl", name: "PEARL", year: 2024, authors: "Liu et al.", arxiv: "2408.11850", branch: "overlap", lossless: "yes", from: ["leviathan"] },
  { id: "ssd", name: "Speculative Speculative Decoding", year: 2026, authors: "Kumar, Dao, May", arxiv: "2603.03251", branch: "overlap", lossless: "yes", from: ["dsi", "pearl"] },
] as const satisfies readonly Entry[];

export type Id = (typeof family)[number]["id"];
export type Member = Entry & { id: Id };

/** The same list, by the general type: fields that an entry lacks are undefined. */
export const members: readonly Member[] = family;

export const link = (of: Member): string => of.link ?? `https://arxiv.org/abs/${of.arxiv}`;

/** forerun's names of an entry; none where it does not have it. */
export const has = (of: Member): readonly Name[] => of.forerun ?? [];

/** What an entry grew from, and what grew from it. */
export function relatives(id: Id): { before: Member[]; after: Member[] } {
  const own = members.find((m) => m.id === id);
  return {
    before: members.filter((m) => own?.from?.includes(m.id)),
    after: members.filter((m) => m.from?.includes(id)),
  };
}
