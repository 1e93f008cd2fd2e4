"""Prompts that certification asks for: short, and some that repeat themselves, so that lookups hit.

What this module does not know: engines.
"""

from __future__ import annotations

import numpy as np

from forerun.models.base import Model

TEXTS = (
    "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return a - b\n\ndef multiply(",
    "The sea was calm that day, and the ship lay still. The sea was calm that day, and the captain",
    "Monday: rain. Tuesday: rain. Wednesday: sun. Thursday: rain. Friday:",
    "A list of colours: red, green, blue, red, green, blue, red,",
    "Once upon a time there was a",
    "Q: What is two plus two?\nA: four\nQ: What is three plus three?\nA: six\nQ: What is four",
    "The three most important things about a good bridge are",
    "x = 1\ny = 2\nprint(x + y)\nx = 3\ny = 4\nprint(",
)
"""For models with a tokenizer."""


def prompts(model: Model, count: int = len(TEXTS)) -> list[tuple[int, ...]]:
    """At most `count` prompts as ids: texts, or for a model that knows only ids, random ones."""
    if model.tokenizer is not None:
        start = [model.tokenizer.bos] if model.tokenizer.adds_bos else []
        return [(*start, *model.tokenizer.encode(text)) for text in TEXTS[:count]]
    return random_prompts(model.vocab_size, model.eos, count)


def random_prompts(
    vocab_size: int, avoid: frozenset[int] = frozenset(), count: int = 6, seed: int = 0
) -> list[tuple[int, ...]]:
    """Ids that come again: every other prompt says its beginning twice."""
    dice = np.random.default_rng([seed, vocab_size])
    ids = [i for i in range(vocab_size) if i not in avoid] or [0]
    found: list[tuple[int, ...]] = []
    for number in range(count):
        some = tuple(int(i) for i in dice.choice(ids, size=int(dice.integers(3, 6))))
        found.append(some * 2 if number % 2 else some)
    return found
