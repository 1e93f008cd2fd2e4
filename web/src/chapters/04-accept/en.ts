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
  zero: rich`Two extremes deserve a look. A word the target would never say, $p = 0$, is never kept, whatever the coin. And where draft and target agree, $p = q$, every coin keeps: a perfect draft is never turned down. The coin must be fresh for each word; one that has been looked at before is no coin any more.`,
  often: rich`Now leave $p$ where it is and let the draft say the word more and more often. Beyond $p$, the chance to be kept falls just as fast as the word is said more often, so that what **arrives**, $q \cdot \min(1, p/q) = \min(q, p)$, stops rising at $p$. However much a draft insists, no more of a word comes through than the target wants.`,
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
