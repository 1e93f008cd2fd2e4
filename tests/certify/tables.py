"""Tables, drafters and controls for the exact-law suites: small, prefix-dependent, reproducible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from forerun.drafters import ModelDrafter, NgramDrafter, PredictionDrafter, SuffixDrafter
from forerun.drafters.base import Drafter
from forerun.models.tabular import TabularModel


def table(
    vocabulary: int, seed: int, *, zeros: bool = False
) -> Callable[[tuple[int, ...]], list[float]]:
    """A law that depends on the whole prefix. `zeros`: some tokens have none after some
    prefixes."""

    @cache
    def next_law(prefix: tuple[int, ...]) -> list[float]:
        rng = np.random.default_rng([seed, vocabulary, *prefix])
        p = rng.dirichlet(np.full(vocabulary, 0.8))
        if zeros and vocabulary > 2 and rng.random() < 0.5:
            p[rng.integers(vocabulary)] = 0.0
            p /= p.sum()
        return list(p)

    return next_law


def target(vocabulary: int, *, eos: int | None = None, context: int | None = None) -> TabularModel:
    return TabularModel(table(vocabulary, 1, zeros=True), vocabulary, eos, context=context)


def draft_model(vocabulary: int, *, context: int | None = None) -> TabularModel:
    return TabularModel(table(vocabulary, 2), vocabulary, context=context, name="draft")


def drafters(vocabulary: int) -> dict[str, Callable[[], Drafter | None]]:
    """Every drafter, the model's with the request's own controls and with others."""
    text = tuple(int(x) for x in np.random.default_rng(5).integers(vocabulary, size=8))
    return {
        "none": lambda: None,
        "model": lambda: ModelDrafter(draft_model(vocabulary)),
        "model, other controls": lambda: ModelDrafter(
            draft_model(vocabulary),
            sampling={
                "temperature": 1.6,
                "top_k": 0,
                "top_p": 1.0,
                "min_p": 0.05,
                "banned": (),
                "repetition_penalty": 1.0,
                "frequency_penalty": 0.3,
            },
        ),
        "model, greedy": lambda: ModelDrafter(draft_model(vocabulary), sampling={"temperature": 0}),
        "ngram": lambda: NgramDrafter(),
        "suffix": lambda: SuffixDrafter(),
        "prediction": lambda: PredictionDrafter(text),
    }


def controls(vocabulary: int) -> dict[str, dict]:
    """Each axis of a request's law alone."""
    last = vocabulary - 1
    return {
        "plain": {},
        "T = 0.7": {"temperature": 0.7},
        "greedy": {"temperature": 0.0},
        "top-k": {"top_k": max(vocabulary - 1, 1)},
        "top-p": {"top_p": 0.7},
        "min-p": {"min_p": 0.4},
        "repetition penalty": {"repetition_penalty": 1.8},
        "repetition reward": {"repetition_penalty": 0.6},
        "presence penalty": {"presence_penalty": 0.9},
        "presence reward": {"presence_penalty": -0.9},
        "frequency penalty": {"frequency_penalty": 0.8},
        "frequency reward": {"frequency_penalty": -0.8},
        "bias": {"logit_bias": {0: -1.5, last: 0.7}},
        "ban": {"banned": [last]},
        "min-tokens": {"min_tokens": 2},
        "stop id": {"stop_ids": [0]},
    }


PROMPT = (0, 1, 1, 0, 1)
COMPANY = ((1, 0, 0), {"max_tokens": 2, "num_draft": 1, "temperature": 1.3})
