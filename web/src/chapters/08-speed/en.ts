import { rich } from "../../ui/tex";

export const en = {
  title: "How fast",
  lead: "What a round brings, what it costs, and why running ahead can lose.",
  intro: rich`Say that a guess is kept with probability α, each time anew. The first of γ guesses stays with probability α, the first two with α², and so on; one word of the target’s own comes in any case. So a round brings, on average,`,
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
  cost: rich`Against this stands the time: γ guesses, each costing _c_ of a plain pass, and one pass over γ + 1 places instead of one. Divide the one by the other, and you have how many times as fast the text appears.`,
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
      rich`**Guessing costs.** A draft model that is a third as dear as the target spends a whole pass on three guesses. What is looked up in the text costs nearly nothing, which is why forerun does that unless told otherwise.`,
      rich`**Wide passes are not free.** A pass costs the same only while fetching weights takes longer than multiplying. Beyond a few places arithmetic takes over, and on a server that is full of requests it has already done so: the empty seats are sold.`,
    ],
    after: rich`So a fixed γ is wrong somewhere. forerun measures what passes cost on your machine, watches what is accepted, and chooses γ for each round, 0 included.`,
  },
  iid: {
    title: "Each time anew?",
    text: rich`Real text is not like that. It comes in streaks: a quotation or a stretch of code, where everything is guessed, then a turn of thought, where nothing is. Let half of the rounds have a higher α and half a lower one, with yours as the mean:`,
    result: (low: string, high: string, even: string, streaks: string) =>
      `Half of the rounds at ${low}, half at ${high}: ${streaks} words a round instead of ${even}. Streaks help, since the curve is bent upwards; and γ may follow them.`,
    after: rich`forerun therefore does not use the closed form. It estimates _s_ᵢ, the probability that at least _i_ guesses stay, from rounds that drafted at least _i_; the expected number of words is 1 + _s_₁ + _s_₂ + …, which needs no such assumption.`,
  },
};
