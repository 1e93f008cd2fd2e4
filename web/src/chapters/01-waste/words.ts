/** What chapter 1 says, in both languages, and the text that is raced. */

import type { Shape } from "../../i18n/words";

export const en = {
  title: "The waste",
  lead: "A language model writes one token after another, and for each of them it reads all of its weights from memory. While it waits for memory, nearly all of the machine’s arithmetic lies idle.",
  intro: [
    "A token is a word or a piece of one. To choose the next, the model multiplies its way through every weight it has: 135 million of them in the small model measured below, hundreds of billions in a large one. A weight is fetched, used in one multiplication, and dropped. Fetching is slow and multiplying is fast, so the time is that of fetching. One token later, all of it starts again.",
    "Show the same pass several tokens at once, and every weight, once fetched, is used for all of them. The bus has to drive its whole route anyway; how many seats are taken hardly matters.",
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
    "Nothing on the page depends on the guesses, except when it appears. Bad guesses make the race slower and never change the text.",
    "That was easy because this target has one answer for each place. Usually a model has a distribution, and draws from it. When is a guess “right” if the target itself might say one thing or another? The next chapters find the rule, and prove that it leaves the distribution untouched.",
  ],
  joiner: " ",
  text: ("For want of a nail the shoe was lost . For want of a shoe the horse was lost . " +
    "For want of a horse the rider was lost . For want of a rider the message was lost . " +
    "For want of a message the battle was lost .").split(" ") as readonly string[],
};

export type Words = Shape<typeof en>;

export const zh: Words = {
  title: "浪费",
  lead: "语言模型一个词元接一个词元地写，而每写一个，都要把全部权重从内存里读一遍。等内存的时候，机器的算力几乎全都闲着。",
  intro: [
    "词元是一个词，或者词的一部分。为了选出下一个，模型要让数据流过自己的每一个权重：下面测的小模型有 1.35 亿个，大模型有几千亿个。取来一个权重，只做一次乘法，就丢开了。取得慢，乘得快，所以时间全花在取上。下一个词元，一切从头再来。",
    "如果同一次前向里多放几个词元，每个权重取来之后就能供它们共用。班车反正要跑完全程，坐了几个人几乎没有差别。",
  ],
  bus: {
    title: "跑一趟内存",
    caption: "柱：一次前向处理 1 到 16 个词元所需的时间。虚线：同样多的词元各跑一趟。",
    seats: "这一趟的词元数",
    memory: "内存：全部权重",
    processor: "处理器",
    rows: "一趟的词元数",
    time: "一趟的时间（毫秒）",
    apart: "逐个跑（毫秒）",
    apartShort: "逐个跑",
    summary: (n, pass, apart, part) =>
      `${n} 个词元：一趟 ${pass} 毫秒，逐个跑要 ${apart} 毫秒，只用了后者的 ${part}。`,
    ride: (n) => `16 个座位坐了 ${n} 个`,
  },
  between: [
    "可是后一个词元取决于前一个，哪来的好几个词元？靠猜。让一个便宜的东西跑在前面，先提出接下来的几个词元；真正的模型，下面都叫目标模型，一次前向把它们全读进去，就知道在每个位置上自己本来会写什么。猜中的留下；第一个没猜中的，换成目标模型自己的词，再往后的猜测全部作废。",
  ],
  race: {
    title: "同一段文字，同一只钟，写两遍",
    caption:
      "上面一行，每个词跑一趟。下面一行，有草稿跑在前面：它只知道这段文字里哪个词后面最常跟哪个词。金色：目标模型的前向；蓝色：起草。",
    clock: "时钟",
    gamma: "每趟猜几个（γ）",
    play: "播放",
    pause: "暂停",
    restart: "从头开始",
    slowed: (times) => `播放速度放慢为实际的 ${times} 分之一。`,
    plain: "普通解码",
    ahead: "先猜后验",
    passes: "昂贵的前向",
    written: "词数",
    done: (ms) => `${ms} 毫秒写完`,
    notYet: "还在写",
    lane: "写法",
    atEnd: "写完的时间（毫秒）",
    round: "前向",
    kept: "留下的猜测",
    guessed: "猜测",
    brought: "得到的词",
    summary: (plain, ahead, times) =>
      `两边写出的文字相同：普通解码用了 ${plain} 次前向，先猜后验用了 ${ahead} 次，速度是 ${times} 倍。`,
    slower: (plain, ahead, times) =>
      `两边写出的文字相同：普通解码用了 ${plain} 次前向，先猜后验用了 ${ahead} 次，但总的速度只有 ${times} 倍。`,
    legend: { accepted: "猜中，留下", residual: "没猜中：目标模型的词", bonus: "全猜中：多得一个词" },
    same: "文字相同",
    different: "文字不同",
    cost: "这里假定猜一个词的代价是单词元前向的十分之一。",
  },
  curve: {
    choose: "前向的时间",
    measured: (model) => `本机实测：${model}`,
    here: (model, machine) => `本机实测：${model}，${machine}。`,
    recorded: (model, machine) => `这是记录下来的数据，不是你的机器：${model}，${machine}。`,
    flat: "理想：多宽都一样",
    full: "满载：每个词元各付一份",
    flatLong: "理想情况：一次前向不管多少词元，都和一个词元一样快。",
    fullLong: "设想：机器已被别的请求占满，每多一个词元都要付和第一个一样的代价。",
    noServer: "想看自己的机器，请带上模型运行 forerun play，它会测出前向的时间。",
  },
  after: [
    "页面上的文字不取决于猜得好坏，只有出现的早晚会变。猜得差，赛跑就慢，文字却一个字也不会变。",
    "刚才之所以容易，是因为目标模型在每个位置只有一个答案。平时模型给出的是一个分布，再从中抽取。如果目标模型自己也可能这样说、也可能那样说，怎样才算“猜中”？接下来几章会找出这条规则，并证明它丝毫不改变分布。",
  ],
  joiner: "",
  text: "从前 有 座 山 ， 山 里 有 座 庙 ， 庙 里 有 个 老 和尚 ， 老 和尚 给 小 和尚 讲 故事 ： 从前 有 座 山 ， 山 里 有 座 庙 ， 庙 里 有 个 老 和尚 ， 老 和尚 给 小 和尚 讲 故事 。".split(
    " ",
  ),
};
