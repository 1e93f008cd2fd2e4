import type { Shape } from "../../i18n/words";
import { rich, texBlock } from "../../ui/tex";

export const en = {
  title: "Convergence",
  lead: "Draw a hundred thousand times, and look for a difference.",
  start: rich`A proof is a fine thing, but a program can still get it wrong. So count. Draw a word by the rule, over and over, and put the shares beside the target’s law: bars against gold ticks. With one sample there is nothing to see, with ten next to nothing. With a hundred thousand, a wrong rule has nowhere to hide.`,
  tools: rich`Two instruments tell luck from error. The pale **band** around each tick is where a right rule’s bar ends, all five at once, in 99 runs of 100; it narrows as $n$ grows. And $\chi^2$ adds up the misses of all bars; its **p-value** is how often a right rule would miss by as much or more. Drag the blue levels: the bars do not care what $q$ is. Then break the rule.`,
  run: {
    title: "Samples against the law",
    picture: "Five columns: the share of each word among the samples, a gold tick at p with a band around it, and blue levels at q that can be moved.",
    caption: "More samples go on from those already drawn. The seed in the address decides them all; “New luck” at the top of the page draws others.",
    samples: "Samples",
    rule: "Rule",
    rules: {
      right: "the right one",
      "from-target": "resample from p",
      argmax: "argmax, scored as sampled",
      lenient: "lenient acceptance",
    },
    explain: {
      right: "Draw from q, keep with min(1, p/q), else draw from [p − q]+/β.",
      "from-target": "A rejected word is drawn again from p instead of the residual. It pays the over-drafted words twice (chapter 5).",
      argmax: "The draft always says its likeliest word, but is scored as if it had been drawn from q. The q in p/q is not the law the word came from.",
      lenient: "Keeps with min(1, 2p/q): twice the fair fraction. More drafts are kept, it is faster, and it is no longer the target’s text.",
    },
    found: "share of the samples",
    target: "wanted, p",
    band: "99% band of a right rule",
    draft: "q",
    ends: "where this rule ends",
    draftOf: (word: string) => `q(${word}), draft`,
    pValue: "p-value",
    inBand: "all bars in the band",
    yes: "yes",
    no: "no",
    few: "Too few samples to tell: some word is expected fewer than five times.",
    same: "No difference to be found. A right rule misses by this much, or more, in that share of runs.",
    different: "This is not the target’s law. A right rule would miss by this much about never.",
    summary: (n: string, p: string | null, inside: boolean) =>
      `${n} samples${p === null ? "" : `, p-value ${p}`}; ${inside ? "all bars lie in the band" : "some bar lies outside of the band"}.`,
    head: ["word", "p", "q", "count", "share", "band from", "to", "where the rule ends"],
  },
  blind: rich`Look at what the mistakes have in common. Each still writes plausible words, often the right one; no reader would notice, and a benchmark might even rise. Only the law is another. This is why forerun does not stop at counting: it also runs its loop under every outcome of its randomness and compares exactly, as the last figure of chapter 3 does.`,
  test: {
    title: "What the two instruments compute",
    chi: rich`With $n$ samples, word $x$ is expected $n\,p(x)$ times and was found $c(x)$ times. Pearson’s statistic is`,
    formula: texBlock`\chi^2 = \sum_x \frac{\bigl(c(x) - n\,p(x)\bigr)^2}{n\,p(x)}`,
    band: rich`and if the law is $p$, it follows the chi-square law with four degrees of freedom (five words, less one, since the counts sum to $n$), closely enough once every word is expected five times. The band is exact: the count of a word is binomial, and from both ends of it one tenth of a percent is cut, so that five words with two ends each err together at most once in a hundred runs.`,
  },
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "收敛",
  lead: "抽上十万次，看看还能不能找出差别。",
  start: rich`证明固然好，程序却仍可能写错。所以要数。按规则一次又一次地抽词，把占比放到目标分布旁边：柱子对金线。抽一次，什么也看不出；十次，也几乎没有。抽到十万次，错误的规则就无处可藏了。`,
  tools: rich`有两件工具能分清是运气还是错误。每条金线周围的浅色**区间**，是规则正确时柱子停下的地方：五根柱子同时落在里面，一百次里有九十九次；$n$ 越大，区间越窄。$\chi^2$ 则把所有柱子的偏差加在一起；它的 **p 值**，是正确的规则偏得这么多或更多的概率。拖动蓝线：柱子并不在乎 $q$ 是什么。然后，把规则弄坏试试。`,
  run: {
    title: "样本与分布的对照",
    picture: "五根柱子：每个词在样本中的占比，p 处的金线及其区间，以及可以移动的蓝线 q。",
    caption: "样本数增加时，接着已有的继续抽。全部由网址中的种子决定；页首的“换一种运气”会换一批。",
    samples: "样本数",
    rule: "规则",
    rules: {
      right: "正确的规则",
      "from-target": "从 p 重抽",
      argmax: "取最大，却当作抽样",
      lenient: "放宽接受",
    },
    explain: {
      right: "按 q 抽，以 min(1, p/q) 接受，否则按 [p − q]+/β 重抽。",
      "from-target": "被拒绝的词从 p 重抽，而不是从残差抽。说得太多的词付了两遍（第五章）。",
      argmax: "草稿总是说自己最有把握的词，核对时却当作是按 q 抽来的。p/q 里的 q，并不是这个词真正的来源。",
      lenient: "以 min(1, 2p/q) 接受：公平比例的两倍。接受得更多，更快，但写出来的不再是目标模型的文字。",
    },
    found: "样本中的占比",
    target: "想要的，p",
    band: "规则正确时的 99% 区间",
    draft: "q",
    ends: "这条规则的归宿",
    draftOf: (word) => `q(${word})，草稿`,
    pValue: "p 值",
    inBand: "柱子都在区间内",
    yes: "是",
    no: "否",
    few: "样本太少，还不能下结论：有的词期望出现不到五次。",
    same: "找不出差别。正确的规则也有这么大的概率偏得这么多或更多。",
    different: "这不是目标分布。正确的规则几乎不可能偏这么多。",
    summary: (n, p, inside) =>
      `${n} 个样本${p === null ? "" : `，p 值 ${p}`}；${inside ? "柱子都在区间内" : "有柱子落在区间外"}。`,
    head: ["词", "p", "q", "个数", "占比", "区间下限", "上限", "规则的归宿"],
  },
  blind: rich`看看这些错误有什么共同之处。每一种写出来的词都像那么回事，而且常常就是对的词；读者察觉不到，评测分数甚至可能更高。变了的只有分布。所以 forerun 不止于数数：它还让自己的循环走遍随机数的每一种结果，作精确的比较，就像第三章最后一张图那样。`,
  test: {
    title: "这两件工具算的是什么",
    chi: rich`样本数为 $n$ 时，词 $x$ 期望出现 $n\,p(x)$ 次，实际出现 $c(x)$ 次。皮尔逊统计量是`,
    formula: texBlock`\chi^2 = \sum_x \frac{\bigl(c(x) - n\,p(x)\bigr)^2}{n\,p(x)}`,
    band: rich`若分布确为 $p$，它服从自由度为四的卡方分布（五个词减一，因为个数之和是 $n$）；只要每个词期望出现五次以上，就足够接近。区间是精确的：一个词的个数服从二项分布，两头各切去千分之一，于是五个词、每个两头，合起来一百次里至多错一次。`,
  },
};
