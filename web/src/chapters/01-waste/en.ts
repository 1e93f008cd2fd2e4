export const en = {
  title: "The waste",
  lead: "A language model writes one token after another, and for each of them it reads all of its weights from memory. While it waits for memory, nearly all of the machine’s arithmetic lies idle.",
  intro: [
    "A token is a word or a piece of one. To choose the next, the model multiplies its way through every weight it has: 135 million of them in SmolLM2, a small one, hundreds of billions in a large one. A weight is fetched, used in one multiplication, and dropped. Fetching is slow and multiplying is fast, so nearly all of the time goes into fetching. That was one pass. For the next token, all of it starts again.",
    "Give one pass several tokens at once, and every weight, once fetched, is used for all of them. The bus has to drive its whole route anyway; how many seats are taken hardly matters.",
  ],
  bus: {
    title: "One trip through memory",
    caption:
      "Bars: time of one pass over 1 to 16 tokens. Dashes: the same tokens in passes of their own.",
    seats: "Tokens in this pass",
    memory: "memory: all weights",
    processor: "processor",
    rows: "tokens in the pass",
    time: "time of the pass (ms)",
    apart: "one by one (ms)",
    apartShort: "one by one",
    summary: (n: string, pass: string, apart: string, part: string) =>
      `${n} tokens: one pass takes ${pass} ms, one by one they take ${apart} ms. The pass needs ${part} of that time.`,
    ride: (n: string) => `${n} of 16 seats taken`,
  },
  between: [
    "But where should several tokens come from, when each depends on the one before? From a guess. Something cheap runs ahead and proposes the next few tokens. The model, called the target from here on, reads all of them in one pass and sees at each place what it would have written itself. Guesses that agree stay. The first that does not is replaced by the target’s own word, and what was guessed after it is thrown away.",
  ],
  race: {
    title: "The same text, twice, on one clock",
    caption:
      "Above, one pass for each word. Below, a drafter guesses ahead: all it knows is which word most often follows which in this text. Gold: passes of the target. Blue: drafting.",
    clock: "Clock",
    gamma: "Guesses per pass (γ)",
    play: "Play",
    pause: "Pause",
    restart: "From the start",
    slowed: (times: string) => `Played ${times} times slower than it runs.`,
    plain: "Plain decoding",
    ahead: "Draft and verify",
    passes: "expensive passes",
    written: "words",
    done: (ms: string) => `done after ${ms} ms`,
    notYet: "still writing",
    lane: "way of writing",
    atEnd: "time at the end (ms)",
    round: "pass",
    kept: "guesses kept",
    guessed: "guesses",
    brought: "words it brought",
    summary: (plain: string, ahead: string, times: string) =>
      `Both write the same text: plain decoding with ${plain} passes, draft and verify with ${ahead}. It is ${times} times as fast.`,
    slower: (plain: string, ahead: string, times: string) =>
      `Both write the same text: plain decoding with ${plain} passes, draft and verify with ${ahead}. All in all it runs at ${times} times the speed.`,
    legend: { accepted: "guess kept", residual: "guess was wrong: the target’s word", bonus: "all were right: one more word" },
    same: "same text",
    different: "texts differ",
    cost: "Each guess is taken to cost a tenth of a pass over one token.",
  },
  curve: {
    choose: "Times of passes",
    measured: (model: string) => `measured here: ${model}`,
    here: (model: string, machine: string) => `Measured on this machine: ${model}, ${machine}.`,
    recorded: (model: string, machine: string) =>
      `Recorded, not of your machine: ${model}, ${machine}.`,
    flat: "ideal: every pass alike",
    full: "full machine: each token its share",
    flatLong: "An idealisation: a pass over many tokens costs as much as one over one.",
    fullLong:
      "A thought experiment: a machine already full of other requests, where each further token costs as much as the first.",
    noServer:
      "To see your own, run forerun play with a model: it measures what passes take.",
  },
  after: [
    "No word of the text depends on the guesses, only the time when it appears. Bad guesses make the race slower and never change the text.",
    "That was easy because this target has one answer for each place. Usually a model has a distribution, and draws from it. When is a guess “right” if the target itself might say one thing or another? The next chapters find the rule, and prove that it leaves the distribution untouched.",
  ],
  joiner: " ",
  text: ("For want of a nail the shoe was lost . For want of a shoe the horse was lost . " +
    "For want of a horse the rider was lost . For want of a rider the message was lost . " +
    "For want of a message the battle was lost .").split(" ") as readonly string[],
};
