import type { Shape } from "../../i18n/words";
import { rich } from "../../ui/tex";

export const en = {
  title: "The accept rule",
  lead: "Keep a drafted token with probability min(1, p/q).",
  start: rich`Look at a single word. The draft says it with probability $q$, the target would say it with $p$. If $q \le p$, it is said too seldom: whenever it is said, that is welcome, so keep it, always. If $q > p$, it is said too often: of $q$ times only $p$ are wanted, so keep the fair fraction, $p/q$. Both cases in one: $\min(1, p/q)$.`,
  coins: rich`“With probability” means a coin: a number drawn evenly between 0 and 1. Below $\min(1, p/q)$ the word is kept, otherwise it is let go. The coins below have fallen already. Drag $q$ against $p$ and see which of them would have decided otherwise.`,
  coin: {
    title: "One word and its coin",
    levels: "A column for the word: how much of it is said, and how much of that is wanted. Both levels can be moved.",
    picture: "The line from 0 to 1, cut at min(1, p/q), with the last hundred coins above it: dots are kept, crosses are let go.",
    caption: "Dots are coins that keep the word, crosses are coins that let it go; the triangle is the last coin. At most a hundred are shown.",
    which: "Word",
    targetOf: (word: string) => `p(${word}), target`,
    draftOf: (word: string) => `q(${word}), draft`,
    target: "wanted, p",
    draft: "said, q",
    kept: "kept, min(q, p)",
    lost: "let go, q − p",
    toss: (n: number) => (n === 1 ? "Toss a coin" : `Toss ${n}`),
    again: "Start over",
    last: (coin: string, a: string, kept: boolean) =>
      kept ? `Last coin: ${coin} < ${a}, so the word is kept.` : `Last coin: ${coin} ≥ ${a}, so the word is let go.`,
    summary: (word: string, p: string, q: string, a: string, n: string, share: string) =>
      `${word}: p = ${p}, q = ${q}, kept with probability ${a}. Of ${n} coins ${share} kept it.`,
    head: ["word", "p", "q", "min(1, p/q)", "coins", "kept", "share"],
  },
  zero: rich`Two ends deserve a look. A word the target would never say, $p = 0$, is never kept, whatever the coin. And where draft and target agree, $p = q$, every coin keeps: a perfect draft is never turned down. The coin must be fresh for each word; one that has been looked at before is no coin any more.`,
  often: rich`Now leave $p$ where it is and let the draft say the word more and more often. The chance to be kept falls just as fast as the word is said more often, so that what **arrives**, $q \cdot \min(1, p/q) = \min(q, p)$, stops rising at $p$. However much a draft insists, no more of a word comes through than the target wants.`,
  curve: {
    title: (word: string) => `What arrives of “${word}”, for every q`,
    picture: "Two curves over q: the chance to be kept is 1 up to p and then falls; what arrives rises up to p and then stays level.",
    caption: "Shaded: said too seldom, always kept. To the right of it: said too often, kept in the fair fraction.",
    axis: "q, how often the draft says it",
    keeps: "chance to be kept, min(1, p/q)",
    arrives: "arrives, min(q, p)",
    draftOf: (word: string) => `q(${word}), draft`,
    summary: (q: string, keeps: string, arrives: string, p: string) =>
      `At q = ${q}: kept with ${keeps}, so ${q} × ${keeps} = ${arrives} arrives; wanted ${p}.`,
    head: ["q", "min(1, p/q)", "arrives"],
  },
  best: {
    title: "Could a cleverer rule keep more?",
    text: rich`No. Take any rule, however it is made, that writes words by the target’s law $p$, and ask how often what it writes equals what was drafted. For a word $x$ both must be $x$, and that is at most as likely as either alone: $P(\text{draft} = X = x) \le \min(q(x), p(x))$. Sum over all words: no lossless rule keeps more than $\sum_x \min(q, p) = 1 - \beta$. This one keeps exactly that much.`,
    why: rich`It holds for one word at a time. Over several drafted words one can do a little better by judging them together: block verification, in chapter 7.`,
  },
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "接受规则",
  lead: "以 min(1, p/q) 的概率留下草稿词元。",
  start: rich`只看一个词。草稿模型以概率 $q$ 说它，目标模型会以概率 $p$ 说它。如果 $q \le p$，说得太少：只要说了就求之不得，一律接受。如果 $q > p$，说得太多：说了 $q$ 那么多，只要 $p$ 那么多，所以按公平的比例 $p/q$ 接受。两种情形合成一条：$\min(1, p/q)$。`,
  coins: rich`“以某个概率”，就是抛一枚硬币：在 0 和 1 之间均匀地抽一个数。小于 $\min(1, p/q)$ 就接受，否则拒绝。下面的硬币都已经落定。拖动 $q$ 去比 $p$，看看哪些硬币会改变主意。`,
  coin: {
    title: "一个词和它的硬币",
    levels: "这个词的柱子：说了多少，其中要多少。两条横线都可以移动。",
    picture: "从 0 到 1 的线段，在 min(1, p/q) 处切开，上方是最近一百枚硬币：圆点接受，叉号拒绝。",
    caption: "圆点是接受这个词的硬币，叉号是拒绝它的硬币；三角指着最后一枚。最多显示一百枚。",
    which: "词",
    targetOf: (word) => `p(${word})，目标`,
    draftOf: (word) => `q(${word})，草稿`,
    target: "想要的，p",
    draft: "说了的，q",
    kept: "接受，min(q, p)",
    lost: "拒绝，q − p",
    toss: (n) => (n === 1 ? "抛一枚" : `抛 ${n} 枚`),
    again: "重来",
    last: (coin, a, kept) => (kept ? `最后一枚：${coin} < ${a}，接受。` : `最后一枚：${coin} ≥ ${a}，拒绝。`),
    summary: (word, p, q, a, n, share) => `“${word}”：p = ${p}，q = ${q}，接受概率 ${a}。${n} 枚硬币中有 ${share} 接受。`,
    head: ["词", "p", "q", "min(1, p/q)", "硬币", "接受", "占比"],
  },
  zero: rich`两个极端值得一看。目标模型绝不会说的词，$p = 0$，不管硬币怎么落都不接受。草稿与目标一致时，$p = q$，每枚硬币都接受：完美的草稿从不被拒。每个词都要用一枚新硬币；看过的硬币就不再是硬币了。`,
  often: rich`现在把 $p$ 固定住，让草稿越来越频繁地说这个词。它说得多了多少，接受的概率就降了多少，于是最终**到手**的 $q \cdot \min(1, p/q) = \min(q, p)$ 到了 $p$ 就不再增加。草稿再怎么坚持，通过的也不会比目标想要的多。`,
  curve: {
    title: (word) => `对每个 q，“${word}”到手多少`,
    picture: "两条随 q 变化的曲线：接受概率在 p 以前是 1，之后下降；到手的量升到 p 就持平。",
    caption: "阴影部分：说得太少，一律接受。右边：说得太多，按公平的比例接受。",
    axis: "q，草稿说它的频率",
    keeps: "接受概率 min(1, p/q)",
    arrives: "到手 min(q, p)",
    draftOf: (word) => `q(${word})，草稿`,
    summary: (q, keeps, arrives, p) => `q = ${q} 时，接受概率 ${keeps}，到手 ${q} × ${keeps} = ${arrives}；想要 ${p}。`,
    head: ["q", "min(1, p/q)", "到手"],
  },
  best: {
    title: "有没有更聪明的规则，能接受得更多？",
    text: rich`没有。任取一条规则，不管怎么设计，只要它按目标分布 $p$ 写词，问写出来的词有多大概率就是草稿。对某个词 $x$，两者都得是 $x$，这不会比其中任何一个单独发生更容易：$P(\text{draft} = X = x) \le \min(q(x), p(x))$。对所有词求和：任何无损规则接受的都不超过 $\sum_x \min(q, p) = 1 - \beta$。而这条规则正好达到。`,
    why: rich`这是对一个一个词而言。把几个草稿词放在一起核对，还能再好一点：那是第七章的整段核对。`,
  },
};
