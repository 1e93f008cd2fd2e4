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
        : `Rejected: β = ${beta}. The correction is drawn from [p − q]₊/β: ${list}. Every bar ends at its tick.`,
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
    when: rich`which sums to zero: what some get too much, others get too little. It vanishes only if $[p - q]_+ = \beta p$ for every word, that is if $q = (1 - \beta)\,p$ for every word the target may say: then the draft errs only by saying words the target never says. In every other case the rule is wrong, and most of all with a middling draft.`,
  },
  later: {
    title: "The same mistake in other clothes",
    text: rich`Using a $q$ that is not the one the draft was really drawn from: after a change of temperature, a top-k cut, or in lower precision. Drawing greedily and scoring as if it had been drawn. Both give a wrong $[p - q]_+$, and the next chapter lets you watch the second fail.`,
  },
};
