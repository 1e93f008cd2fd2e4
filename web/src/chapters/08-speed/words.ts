/** What chapter 8 says, in both languages. */

import type { Shape } from "../../i18n/words";
import { rich, texBlock } from "../../ui/tex";

const words = texBlock`1 + \alpha + \alpha^2 + \dots + \alpha^\gamma = \frac{1 - \alpha^{\gamma + 1}}{1 - \alpha}`;
const times = texBlock`\frac{1 + \alpha + \dots + \alpha^\gamma}{\gamma c + t(\gamma + 1) / t(1)}`;

export const en = {
  title: "How fast",
  lead: "What a round brings, what it costs, and why running ahead can lose.",
  intro: rich`Say that a guess is kept with probability α, each time anew. The first of γ guesses stays with probability α, the first two with α², and so on; one word of the target’s own comes in any case. So a round brings, on average,`,
  formula: words,
  bring: {
    title: "What a round brings",
    caption: rich`Each bar is the probability that its word comes out of the round. Their sum is the expected number of words, 1 / (1 − α) at the very most.`,
    alpha: "A guess is kept with probability (α)",
    gamma: "Guesses per pass (γ)",
    own: "own",
    guess: "guess",
    chance: "probability",
    sum: "expected words",
    summary: (e: string, alpha: string, gamma: string, most: string) =>
      `With α = ${alpha} and γ = ${gamma} a round brings ${e} words on average; with endless guesses it would be ${most}.`,
  },
  cost: rich`Against this stands the time: γ guesses, each costing _c_ of a plain pass, and one pass over γ + 1 places instead of one. Divide both, and out comes how many times as fast the text appears.`,
  formulaSpeed: times,
  speed: {
    title: "How many times as fast",
    caption: "Left: over γ, with the best one ringed. Right: over α, for your γ (strong) and for the best γ at each α (dashed). Below the line at 1, plain decoding is faster.",
    c: "A guess costs (c, in plain passes)",
    presets: "For example",
    names: {
      good: "a good draft model",
      lookup: "looked up in the text",
      poor: "a poor draft",
      dear: "a draft that costs too much",
      full: "a machine that is full",
    },
    overGamma: "over γ",
    overAlpha: "over α",
    gamma: "γ",
    alpha: "α",
    times: "times as fast",
    best: "best",
    yours: "yours",
    loses: "slower than plain",
    here: "measured in chapter 9",
    summary: (now: string, gamma: string, best: string, most: string) =>
      `With γ = ${gamma} it runs at ${now} times the speed. The best is γ = ${best}, with ${most}.`,
    never: (now: string, gamma: string) =>
      `With γ = ${gamma} it runs at ${now} times the speed. Here nothing beats plain decoding: the best γ is 0.`,
    bestAt: "best γ",
  },
  lose: {
    title: "Why it can lose",
    points: [
      rich`**Guesses are wrong.** Where α is low, most of what is drafted and checked is thrown away. One word a pass comes out all the same, but the pass was wider.`,
      rich`**Guessing costs.** A draft model that is a third as dear as the target spends a whole pass on three guesses. What is looked up in the text costs nearly nothing, which is why forerun tries that first.`,
      rich`**Wide passes are not free.** A pass costs the same only while fetching weights takes longer than multiplying. Beyond a few places arithmetic takes over, and on a server that is full of requests it has already done so: the empty seats are sold.`,
    ],
    after: rich`So a fixed γ is wrong somewhere. forerun measures what passes cost on your machine, watches what is accepted, and chooses γ for each round, 0 included.`,
  },
  iid: {
    title: "Each time anew?",
    text: rich`Real text is not like that. It comes in streaks: a quotation or a stretch of code, where everything is guessed, then a turn of thought, where nothing is. Let half of the rounds have a higher α and half a lower one, with yours as the mean:`,
    result: (low: string, high: string, even: string, streaks: string) =>
      `Half of the rounds at ${low}, half at ${high}: ${streaks} words a round instead of ${even}. Streaks help, since the curve is bent upwards; and γ may follow them.`,
    after: rich`forerun therefore does not use the closed form. It estimates _s_ᵢ, the probability that at least _i_ guesses stay, from rounds that drafted at least _i_; the expected number of words is 1 + _s_₁ + _s_₂ + …, with no assumption at all.`,
  },
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "快多少",
  lead: "一轮得到多少，花掉多少，为什么跑在前面也可能吃亏。",
  intro: rich`设每个猜测以概率 α 留下，次次独立。γ 个猜测里，第一个留下的概率是 α，前两个都留下是 α²，依此类推；目标模型自己的一个词总是有的。于是一轮平均得到`,
  formula: words,
  bring: {
    title: "一轮得到多少",
    caption: rich`每根柱子是这一轮能得到那个词的概率，加起来就是期望词数，最多不超过 1 / (1 − α)。`,
    alpha: "一个猜测留下的概率（α）",
    gamma: "每趟猜几个（γ）",
    own: "自己",
    guess: "猜测",
    chance: "概率",
    sum: "期望词数",
    summary: (e, alpha, gamma, most) =>
      `α = ${alpha}、γ = ${gamma} 时，一轮平均得到 ${e} 个词；就算一直猜下去，也只有 ${most} 个。`,
  },
  cost: rich`另一边是时间：γ 个猜测，每个花掉普通前向的 _c_ 倍；再加一趟前向，不是一个位置，而是 γ + 1 个。两边一除，就是文字出来得快多少。`,
  formulaSpeed: times,
  speed: {
    title: "快多少倍",
    caption: "左：随 γ 变化，最好的一个套了圈。右：随 α 变化，粗线用你的 γ，虚线是每个 α 处最好的 γ。在 1 那条线以下，还不如普通解码。",
    c: "一个猜测的代价（c，以普通前向计）",
    presets: "比如",
    names: {
      good: "好的草稿模型",
      lookup: "从文本里查找",
      poor: "差的草稿",
      dear: "太贵的草稿",
      full: "机器已满载",
    },
    overGamma: "随 γ",
    overAlpha: "随 α",
    gamma: "γ",
    alpha: "α",
    times: "倍速",
    best: "最好",
    yours: "你的",
    loses: "比普通解码慢",
    here: "第 9 章实测",
    summary: (now, gamma, best, most) => `γ = ${gamma} 时速度是 ${now} 倍；最好的是 γ = ${best}，${most} 倍。`,
    never: (now, gamma) => `γ = ${gamma} 时速度是 ${now} 倍。这里什么都比不过普通解码：最好的 γ 是 0。`,
    bestAt: "最好的 γ",
  },
  lose: {
    title: "为什么会吃亏",
    points: [
      rich`**猜错了。** α 低的时候，起草的、核对的，大半都扔掉了。一趟照样只出一个词，而这一趟还更宽。`,
      rich`**猜也要钱。** 草稿模型若有目标模型三分之一那么贵，猜三个词就花掉整整一趟。在文本里查找几乎不花钱，所以 forerun 先试这个。`,
      rich`**宽的前向不是白来的。** 只有在取权重比做乘法更慢的时候，几个位置才和一个位置一样快。位置再多，就轮到算力成为瓶颈；服务器上请求一满，早就如此了：空座都卖掉了。`,
    ],
    after: rich`所以固定的 γ 总有不合适的地方。forerun 会测出前向在你的机器上要多久，留意接受了多少，每一轮重新选 γ，也可以选 0。`,
  },
  iid: {
    title: "真的次次独立吗",
    text: rich`真实的文字不是这样，它一阵一阵的：引用一段话、写一段代码，全都猜得中；思路一转，又什么都猜不中。设一半的轮次 α 高些，一半低些，平均是你选的值：`,
    result: (low, high, even, streaks) =>
      `一半轮次 ${low}，一半 ${high}：一轮得到 ${streaks} 个词，而不是 ${even} 个。曲线是向上弯的，一阵一阵反而有利；何况 γ 还可以跟着变。`,
    after: rich`所以 forerun 不用这个封闭公式，而是从至少猜了 _i_ 个的轮次里估计 _s_ᵢ，即至少留下 _i_ 个的概率；期望词数是 1 + _s_₁ + _s_₂ + …，不需要任何假设。`,
  },
};
