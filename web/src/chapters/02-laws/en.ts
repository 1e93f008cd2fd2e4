import { rich } from "../../ui/tex";

export const en = {
  title: "Two laws, one vocabulary",
  lead: "The draft and the target know the same words, but give them other probabilities.",
  start: rich`A language model does not know the next word. It knows how likely each word is (its **law**, or distribution), and one is drawn. So at every word the future forks. Imagine the question “Mondays, in one word?” answered five times: five timelines. In three of the large model’s, the answer is _love_, in two it is _hate_.`,
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
    moved: (p: string, q: string) => `With p and q as you have set them: love ${p} in the target’s law, ${q} in the draft’s.`,
    story: "Back to three in five and one in five",
    summary: (n: string, loves: string, wanted: string, kept: string, erased: string) =>
      `${n} timelines: ${kept} kept, ${erased} erased and replaced; love in ${loves}, wanted ${wanted}.`,
    head: ["word", "draft q", "target p", "count", "share", "band from", "to"],
  },
  end: rich`Two numbers decided it, $p$ and $q$ of the one word at hand: kept with probability $\min(1, p/q)$, that is $1$ for _love_ and $\frac{2/5}{4/5} = \frac12$ for _hate_. The next chapter shows that this works for any two laws, and why.`,
};
