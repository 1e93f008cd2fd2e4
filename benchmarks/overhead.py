"""Cost of a round outside the model's pass: drafting, laws, verification, commit, trace. One core.

    python benchmarks/overhead.py [--vocabulary 49152] [--tokens 400] [--num-draft 4] [--numpy]

The production engine copies a text with small changes, as when a file is edited, with the suffix
drafter. The model is a fake that has the text by heart: `sure` gives the text's next token 0.97,
`open` 0.4 and the rest to a tail as wide as a small language model's (95% in some 500 tokens).
Prints medians over interleaved repeats, in microseconds of processor time a round, split by what
was done. What the fake's `extend` takes is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
from contextlib import contextmanager
from time import thread_time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from pathlib import Path

import numpy as np

import forerun
from forerun import decode
from forerun.drafters import SuffixDrafter
from forerun.models.base import Abilities, checked_path
from forerun.numerics import fused
from forerun.verifiers import VERIFIERS

PROMPT = 600  # tokens of the text that are the prompt
BANK = 16  # rows of logits that take turns

CASES = {
    "greedy": {"temperature": 0.0},
    "T=1 top-p .95": {"temperature": 1.0, "top_p": 0.95},
    "T=1 top-p .95 seeded": {"temperature": 1.0, "top_p": 0.95, "seed": 1},
    "T=1": {"temperature": 1.0},
    "T=1 seeded": {"temperature": 1.0, "seed": 1},
}


def text_ids(vocabulary: int, count: int) -> list[int]:
    """Ids of this repository's code, word by word, then again with every 40th word changed."""
    files = sorted((Path(forerun.__file__).parent / "drafters").glob("*.py"))
    words = " ".join(file.read_text() for file in files).split(" ")[:PROMPT]
    known: dict[str, int] = {}
    ids = [known.setdefault(word, len(known) * 7919 % vocabulary) for word in words]
    changed = [(id + 1) % vocabulary if i % 40 == 39 else id for i, id in enumerate(ids)]
    return (ids + changed * (count // len(ids) + 1))[:count]


def logits_of(top: float, vocabulary: int, rng: np.random.Generator) -> np.ndarray:
    """Rows whose largest logit has the share `top`."""
    rows = rng.normal(size=(BANK, vocabulary)) + 1.3 * rng.gumbel(size=(BANK, vocabulary))
    others = np.log(np.exp(rows).sum(axis=1))
    rows[np.arange(BANK), rows.argmax(axis=1)] = others + np.log(top / (1 - top))
    return rows.astype(np.float32)


class Tokenizer:
    """As much of a tokenizer as the engine's text needs."""

    def stream(self, continuing: bool = False) -> Tokenizer:
        return self

    def token_bytes(self, token: int) -> bytes:
        return b" word"

    def push(self, token: int) -> str:
        return " word"


class ByHeart:
    """A Model that knows one text. Its logits depend on the position alone."""

    name, eos, context = "by-heart", frozenset[int](), None
    abilities, tokenizer = Abilities(pages=False), Tokenizer()

    def __init__(self, text: list[int], logits: np.ndarray) -> None:
        self.vocab_size = logits.shape[1]
        self.seconds = 0.0
        self._text, self._logits = text, logits
        self._out = np.empty((64, self.vocab_size), np.float32)
        self._top = logits.argmax(axis=1)
        self._length, self._before = 0, 0

    def open(self) -> int:
        self._length = 0
        return 0

    def close(self, slot: int) -> None: ...

    def length(self, slot: int) -> int:
        return self._length

    def fits(self, lengths) -> bool:
        return True

    def save(self, slot: int, start: int, stop: int): ...

    def restore(self, slot: int, pages, count: int) -> None: ...

    def extend(self, steps):
        start = thread_time()
        (step,) = steps
        self._before = self._length
        out = self._out[: step.wanted]
        for i in range(step.wanted):  # a chain
            at = self._length + len(step.tokens) - step.wanted + i  # the last token read
            row, token, top = out[i], self._text[at + 1], self._top[at % BANK]
            row[:] = self._logits[at % BANK]
            row[top], row[token] = row[token], row[top]
        self._length += len(step.tokens)
        self._count = len(step.tokens)
        self.seconds += thread_time() - start
        return [out]

    def keep(self, slot, length, path=None):
        if path is not None:
            checked_path(path, None, self._count, self._before, length)
        self._length = length


class Stopwatch:
    """Wraps functions, and adds up the seconds spent in each; what they call is counted there."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inside = [0.0]

    def wrap(self, part: str, function):
        def timed(*args, **kwargs):
            self._inside.append(0.0)
            start = thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = thread_time() - start
                self.seconds[part] = self.seconds.get(part, 0.0) + took - self._inside.pop()
                self._inside[-1] += took

        return timed


@contextmanager
def patched(watch: Stopwatch | None):
    """The parts of a round timed, while it lasts."""
    homes = [(decode, part) for part in PARTS if hasattr(decode, part)]
    homes += [(kind, "verify") for kind in VERIFIERS.values()]
    whole = [getattr(*home) for home in homes]
    if watch is not None:
        for home, function in zip(homes, whole, strict=True):
            setattr(*home, watch.wrap(home[1], function))
    yield
    for home, function in zip(homes, whole, strict=True):
        setattr(*home, function)


def one(model: ByHeart, prompt: list[int], options: dict, tokens: int, num_draft: int, split: bool):
    """Microseconds a round outside `extend` (by part where `split`), and the trace's statistics."""
    watch = Stopwatch()
    with (
        patched(watch if split else None),
        forerun.Engine(model, SuffixDrafter(), num_draft=num_draft) as engine,
    ):
        model.seconds = 0.0
        start = thread_time()
        done = engine.generate(prompt, max_tokens=tokens, **options)
        took = thread_time() - start
    rounds = done.stats.rounds
    seconds = took - model.seconds
    parts = {part: s / rounds * 1e6 for part, s in watch.seconds.items()}
    return seconds / rounds * 1e6, parts, done.stats


PARTS = ("propose", "target_laws", "verify", "commit", "keep", "_record")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=49_152)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--num-draft", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--numpy", action="store_true", help="do without the C library")
    options = parser.parse_args()
    if options.numpy:
        fused.functions = lambda: None
    rng = np.random.default_rng(0)
    text = text_ids(options.vocabulary, PROMPT + options.tokens + 100)
    models = {
        kind: ByHeart(text, logits_of(top, options.vocabulary, rng))
        for kind, top in (("sure", 0.97), ("open", 0.4))
    }
    found: dict[tuple[str, str], list] = {}
    for _ in range(options.repeats):
        for kind, model in models.items():
            for case, sampling in CASES.items():
                for split in (False, True):
                    run = one(
                        model, text[:PROMPT], sampling, options.tokens, options.num_draft, split
                    )
                    found.setdefault((kind, case), []).append((split, *run))
    print(f"V = {options.vocabulary}, µs a round outside the pass: median (least); then its parts")
    for (kind, case), runs in found.items():
        whole = [us for split, us, _, _ in runs if not split]
        stats = runs[0][3]
        split = [parts for split, _, parts, _ in runs if split]
        parts = " ".join(
            f"{part.removeprefix('_')} {statistics.median(us.get(part, 0) for us in split):.0f}"
            for part in PARTS
        )
        print(
            f"{kind:5} {case:21} {statistics.median(whole):7.0f} ({min(whole):.0f})   {parts}   "
            f"{stats.drafted / stats.rounds + 1:.1f} rows, {stats.tokens_per_pass:.1f} tokens"
        )


if __name__ == "__main__":
    main()
