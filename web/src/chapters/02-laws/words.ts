import type { Shape } from "../../i18n/words";
import { rich } from "../../ui/tex";

export const en = {
  title: "Two laws, one vocabulary",
  lead: "The draft and the target know the same words, but not with the same probabilities.",
  start: rich`A language model does not know the next word. It knows how likely each word is, and one is drawn. So at every word the future forks. Imagine the question “Mondays, in one word?” answered five times: five timelines. In three of the large model’s, the answer is _love_, in two it is _hate_.`,
  then: rich`The small model was asked the same. It answers much faster, but it is gloomier: one _love_, four _hate_. We would like to use its timelines and have them look like the large one’s. Try it by hand: erase a timeline, and a new word is drawn for it from the large model’s law.`,
  hand: {
    title: "Mend the draft’s timelines",
    target: "The target’s five timelines: the goal",
    draft: "The draft’s five timelines: yours to mend",
    caption: "Only the counts matter, not which timeline says what.",
    erase: "Erase",
    eraseThis: (i: number, word: string) => `Erase timeline ${i}, ${word}`,
    kept: "kept",
    erased: "erased",
    resampled: "resampled",
    again: "Start over",
    notYet: (missing: number) =>
      missing > 0
        ? `Not yet: ${missing === 1 ? "one love is" : `${missing} loves are`} missing.`
        : `Not yet: ${missing === -1 ? "one love" : `${-missing} loves`} too many.`,
    done: (kept: number, erased: number) =>
      `Three loves, two hates: the target’s law. You kept ${kept} of the draft’s words and drew ${erased} ${erased === 1 ? "word" : "words"} anew.`,
    summary: (kept: number, erased: number, loves: number, hates: number) =>
      `${kept} kept, ${erased} erased and resampled; now love × ${loves}, hate × ${hates}, wanted 3 and 2.`,
    head: ["timeline", "target", "draft", "erased", "now"],
  },
  between: rich`You could do that because you saw all five at once, and knew when to stop. A model that writes sees one timeline: its own. There is no second one to count. So the question is whether a rule can mend timelines **one by one**, blind to all the others, and still have the whole come out right.`,
  idea: rich`It can. Of five drafted words, one is _love_; three are wanted. So never erase a _love_. Four are _hate_; two are wanted. So keep every _hate_ with probability two in four, by tossing a coin. Whatever the coin erases becomes what was missing: _love_. On average one _love_ and two _hate_ are kept, two are erased, and the count is three to two.`,
  rule: {
    title: "A rule that sees one timeline at a time",
    caption: "Each row is one timeline: the draft’s word, the coin against its chance to be kept, and what became of it. The rule remembers nothing of the rows before.",
    coin: (coin: string, chance: string, kept: boolean) => `coin ${coin} ${kept ? "<" : "≥"} ${chance}`,
    more: (n: string) => `${n} more`,
    again: "Start over",
    bars: "Shares of the two words after the rule, beside the target’s law",
    found: "share after the rule",
    wanted: "target’s law p",
    band: "where a right rule ends, 99 times in 100",
    summary: (n: string, loves: string, kept: string, erased: string) =>
      `${n} timelines: ${kept} kept, ${erased} erased and replaced; love in ${loves}, wanted 60%.`,
    head: ["word", "draft q", "target p", "count", "share", "band from", "to"],
  },
  end: rich`Two numbers decided it, $p$ and $q$ of the one word at hand: kept with probability $\min(1, p/q)$, that is $1$ for _love_ and $\frac{2/5}{4/5} = \frac12$ for _hate_. The next chapter shows that this works for any two laws, and why.`,
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "同一份词表，两个分布",
  lead: "草稿模型和目标模型认识同样的词，给出的概率却不同。",
  start: rich`语言模型并不知道下一个词是什么。它只知道每个词有多大可能，然后抽一个。所以每写一个词，未来就分一次岔。设想把“用一个词形容星期一”问五遍，就有五条时间线。大模型的五条里，三条答“爱”，两条答“恨”。`,
  then: rich`小模型也被问了同样的问题。它答得快得多，也悲观得多：一条“爱”，四条“恨”。我们想用它的时间线，又要它们看上去和大模型的一样。先动手试试：擦掉一条，就会按大模型的分布给它重抽一个词。`,
  hand: {
    title: "把草稿的时间线改好",
    target: "目标模型的五条时间线：这是目标",
    draft: "草稿模型的五条时间线：由你来改",
    caption: "只看个数，不管哪一条说了什么。",
    erase: "擦掉",
    eraseThis: (i, word) => `擦掉第 ${i} 条：${word}`,
    kept: "保留",
    erased: "擦掉",
    resampled: "重抽",
    again: "重来",
    notYet: (missing) => (missing > 0 ? `还不行：“爱”少了 ${missing} 个。` : `还不行：“爱”多了 ${-missing} 个。`),
    done: (kept, erased) => `三个“爱”，两个“恨”，正是目标模型的分布。草稿的词你保留了 ${kept} 个，重抽了 ${erased} 次。`,
    summary: (kept, erased, loves, hates) =>
      `保留 ${kept} 条，擦掉并重抽 ${erased} 次；现在爱 × ${loves}，恨 × ${hates}，应为 3 和 2。`,
    head: ["时间线", "目标", "草稿", "擦掉次数", "现在"],
  },
  between: rich`你能办到，是因为五条都摆在眼前，知道什么时候该停。而正在写作的模型只有一条时间线，就是它自己这条，没有别的可数。于是问题来了：有没有一条规则，能**一条一条**地改，完全不看其他的，而整体仍然正确？`,
  idea: rich`有。五个草稿词里，“爱”有一个，而要三个，所以“爱”一律不擦。“恨”有四个，只要两个，所以每个“恨”都以四分之二的概率保留，抛硬币决定。被硬币擦掉的，一律变成缺少的那个词：“爱”。平均下来，一个爱、两个恨留下，两个被擦掉，正好三比二。`,
  rule: {
    title: "一条只看一条时间线的规则",
    caption: "每行是一条时间线：草稿的词、硬币与保留概率的比较、最后的结果。规则不记得前面任何一行。",
    coin: (coin, chance, kept) => `硬币 ${coin} ${kept ? "<" : "≥"} ${chance}`,
    more: (n) => `再来 ${n} 条`,
    again: "重来",
    bars: "按规则处理之后两个词的占比，与目标分布对照",
    found: "处理之后的占比",
    wanted: "目标分布 p",
    band: "规则正确时，一百次有九十九次落在这里",
    summary: (n, loves, kept, erased) => `共 ${n} 条：保留 ${kept} 条，擦掉并顶替 ${erased} 条；“爱”占 ${loves}，应为 60%。`,
    head: ["词", "草稿 q", "目标 p", "个数", "占比", "范围下限", "上限"],
  },
  end: rich`决定这一切的只有两个数：手头这个词的 $p$ 和 $q$。保留的概率是 $\min(1, p/q)$：对“爱”是 $1$，对“恨”是 $\frac{2/5}{4/5} = \frac12$。下一章说明，这对任意两个分布都成立，以及为什么。`,
};
