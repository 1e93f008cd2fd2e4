import type { Shape } from "../../i18n/words";
import { rich, texBlock } from "../../ui/tex";

export const en = {
  title: "The residual",
  lead: "What the draft gives too little of is exactly what a correction must give back.",
  start: rich`With two words there was no question what to write after a rejection: if it is not the one, it is the other. So let a third word in, _meh_. Now two words can be said too seldom at once, and a rejected draft has to become one of them. But which? The correction needs a law of its own.`,
  tempting: rich`The tempting answer: the target knows best, so draw from $p$. It looks so right that it is the easiest mistake to make. Below, the green parts are what was kept. The rejected rest, $\beta$ in all, stands in the pot on the right and is poured over the words. Flip the switch and watch where the bars end.`,
  pour: {
    title: "Pouring what was rejected",
    picture: "Three columns: what was kept of each word, what is poured on top, and gold levels at p; to the right the pot with all that was rejected. All levels can be moved.",
    caption: "The pot is divided as the correction’s law divides it. Drag the levels: the right rule meets the gold levels wherever they are.",
    wrong: "Wrong rule: resample from p",
    pot: "rejected",
    targetOf: (word: string) => `p(${word}), target`,
    draftOf: (word: string) => `q(${word}), draft`,
    target: "wanted, p",
    draft: "said by the draft, q",
    kept: "kept, min(q, p)",
    filled: "poured in",
    let: "rejected, β",
    twice: "rejected, and paid twice",
    owed: "still owed",
    comma: ", ",
    sampled: (n: string, shares: string) => `Not only on paper: ${n} samples gave ${shares}.`,
    summary: (wrong: boolean, beta: string, list: string) =>
      wrong
        ? `Resampling from p, the bars miss their ticks by: ${list}.`
        : `Rejected: β = ${beta}. The correction is drawn from [p − q]+/β: ${list}. Every bar ends at its tick.`,
    head: [
      "word", "p", "q", "kept", "missing", "poured", "law of the rule", "miss", "share of 20,000 samples", "band from", "to",
    ],
  },
  why: rich`Why does drawing from $p$ miss? Because the accept path has been paying all along. By the time a draft is rejected, every word has had $\min(q, p)$. An over-drafted word, _hate_ here, has been paid in full by then. A draw from $p$ knows nothing of that and pays it again, $\beta \cdot p$ on top; what it gets twice, the others do not get at all.`,
  owed: rich`What is still owed is easy to say: the full amount less what has been paid, $p - \min(q, p) = [p - q]_+$. Nothing for the over-drafted, the rest for the others. And the pot holds just enough to pay it, $\beta$, for whatever was drafted beyond the gold level somewhere is missing below it elsewhere. The residual is nothing but the list of debts, divided by its sum so that one can draw from it.`,
  size: {
    title: "How large is the mistake?",
    text: rich`By the wrong rule a word comes out with $\min(q, p) + \beta p$, so it misses by`,
    formula: texBlock`\min(q, p) + \beta p - p = \beta p - [p - q]_+`,
    when: rich`which sums to zero: what some get too much, others get too little. It vanishes only if $[p - q]_+ = \beta p$ for every word, that is if $p = q$, or if the two laws share no word at all. In between it is always wrong, and most wrong where it hurts: with a middling draft.`,
  },
  later: {
    title: "The same mistake in other clothes",
    text: rich`Using a $q$ that is not the one the draft was really drawn from: after a change of temperature, a top-k cut, or in lower precision. Drawing greedily and scoring as if it had been drawn. Both give a wrong $[p - q]_+$, and the next chapter lets you watch some of them fail.`,
  },
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "残差分布",
  lead: "草稿少给了多少，修正时就正好补回多少。",
  start: rich`只有两个词时，拒绝之后写什么不成问题：不是这个，就是那个。现在放进第三个词：“无感”。这下可以有两个词同时说得太少，被拒绝的草稿得变成其中一个。变成哪一个？修正需要一个自己的分布。`,
  tempting: rich`很诱人的答案是：目标模型最清楚，那就按 $p$ 抽。它看起来太对了，所以最容易错在这里。下图中，绿色是接受的部分；被拒绝的其余部分，总共 $\beta$，都在右边的罐子里，要倒到各个词上去。拨动开关，看柱子停在哪里。`,
  pour: {
    title: "把拒绝掉的倒回去",
    picture: "三根柱子：每个词接受的部分、倒在上面的部分，以及 p 处的金线；右边的罐子装着全部被拒绝的概率。所有横线都可以移动。",
    caption: "罐子按修正分布的比例划分。拖动横线试试：不管它们在哪里，正确的规则总是正好到金线。",
    wrong: "错误的规则：从 p 重抽",
    pot: "拒绝的",
    targetOf: (word) => `p(${word})，目标`,
    draftOf: (word) => `q(${word})，草稿`,
    target: "想要的，p",
    draft: "草稿说的，q",
    kept: "接受，min(q, p)",
    filled: "倒进来的",
    let: "拒绝的，β",
    twice: "拒绝的，以及重复付的",
    owed: "还欠着的",
    comma: "，",
    sampled: (n, shares) => `不只是纸上谈兵：抽样 ${n} 次，得到 ${shares}。`,
    summary: (wrong, beta, list) =>
      wrong
        ? `从 p 重抽，柱子与金线相差：${list}。`
        : `拒绝概率 β = ${beta}。修正按 [p − q]+/β 抽：${list}。每根柱子都正好到金线。`,
    head: ["词", "p", "q", "接受", "缺口", "倒入", "规则的分布", "相差", "20,000 次抽样的占比", "范围下限", "上限"],
  },
  why: rich`为什么按 $p$ 抽会偏？因为接受那条路一直在付账。到草稿被拒绝时，每个词都已经得了 $\min(q, p)$。说得太多的词（这里是“恨”）这时已经付清。按 $p$ 抽并不知道这一点，又付一遍，多出 $\beta \cdot p$；它多拿的，正是别的词拿不到的。`,
  owed: rich`还欠多少很容易说清：总数减去已付的，$p - \min(q, p) = [p - q]_+$。说得太多的词不再欠，其余的词欠着剩下的部分。罐子里正好够还，就是 $\beta$：某处高出金线的，必然是别处低于金线的。残差不过是一张欠账清单，除以总数，好从中抽样。`,
  size: {
    title: "错得有多大？",
    text: rich`按错误的规则，一个词出现的概率是 $\min(q, p) + \beta p$，相差`,
    formula: texBlock`\min(q, p) + \beta p - p = \beta p - [p - q]_+`,
    when: rich`总和为零：有的多了，有的就少了。只有当每个词都满足 $[p - q]_+ = \beta p$ 时才没有偏差，也就是 $p = q$，或者两个分布没有任何共同的词。除此之外总是错的，而且草稿不好不坏时错得最厉害。`,
  },
  later: {
    title: "同一个错误的其他面目",
    text: rich`用来核对的 $q$ 不是草稿真正抽样所用的那个：温度改了，做了 top-k 截断，或者精度降低了。贪心地取词，却当作是抽样来的去核对。这些都会得到错误的 $[p - q]_+$，下一章可以亲眼看到其中几种如何失败。`,
  },
};
