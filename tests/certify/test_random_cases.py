"""Random targets, drafts, controls, contexts and company against a law written by hand.

The expected law shares no code with the library: `reference` turns logits into a law in plain
Python, and the recursion here multiplies.
"""

from __future__ import annotations

import math
import random
from functools import cache

import pytest

from forerun.certify import exact_law, total_variation
from forerun.drafters import (
    HybridDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SuffixDrafter,
)
from forerun.models.tabular import TabularModel
from forerun.numerics.distribution import History
from forerun.pace import Costs
from forerun.sampling import SamplingParams
from numerics.test_distribution import reference

AXES = {
    "temperature": [0, 0.5, 1.7, 0.05],
    "top_k": [1, 2, 7],
    "top_p": [0.3, 0.9, 0.999],
    "min_p": [0.1, 0.5, 1],
    "repetition_penalty": [0.5, 2.0],
    "presence_penalty": [-1.0, 1.0],
    "frequency_penalty": [-0.7, 0.9],
    "logit_bias": [{0: 1.5}, {1: -100.0}],
    "banned": [(1,)],
    "min_tokens": [1, 2],
    "stop_ids": [(1,)],
}


def table(rng, size):
    """A law of the last three ids, with zeros."""
    salt = rng.random()

    @cache
    def of(recent):
        own = random.Random(str((salt, recent)))
        weights = [0.0 if own.random() < 0.3 else own.random() for _ in range(size)]
        weights[own.randrange(size)] += 0.1
        return [w / sum(weights) for w in weights]

    return lambda prefix: of(prefix[-3:])


def expected(next_law, params, prompt, limit):
    """Π p of every output; None where some position that is reached leaves no token."""
    found, frontier = {}, {(): 1.0}
    while frontier:
        output, weight = frontier.popitem()
        p = next_law((*prompt, *output))
        logits = [math.log(x) if x > 0 else -math.inf for x in p]
        held = params.end_ids if len(output) < params.min_tokens else set()
        if all(l == -math.inf or i in held | params.banned for i, l in enumerate(logits)):
            return None
        history = History((*prompt, *output), len(prompt))
        for token, share in enumerate(reference(logits, params, history, [True] * len(p))):
            if share > 0:
                longer = (*output, token)
                ended = token in params.end_ids or len(prompt) + len(longer) >= limit
                (found if ended else frontier)[longer] = weight * share
    return found


def drafter(rng, size, next_law, context):
    law = next_law if rng.random() < 0.2 else table(rng, size)
    model = TabularModel(law, size, context=context, name="draft")
    overrides = [{"temperature": 0}, {"temperature": 2.0}, {"top_k": 1}, {"banned": [0]}]
    return rng.choice(
        [
            lambda: None,
            lambda: ModelDrafter(model),
            lambda: ModelDrafter(model, sampling=rng.choice(overrides)),
            lambda: NgramDrafter(longest=rng.choice([1, 2, 5])),
            lambda: SuffixDrafter(min_probability=rng.choice([0, 0.2]), draft_factor=9.0),
            lambda: PredictionDrafter([rng.randrange(size) for _ in range(rng.choice([0, 1, 9]))]),
            lambda: HybridDrafter(
                [rng.choice([NgramDrafter, SuffixDrafter])(), ModelDrafter(model)]
            ),
        ]
    )()


def costs(rng):
    """Rows from nearly free to as dear as a pass, and a draft model likewise."""
    step, own = rng.choice([0.01, 0.1, 0.5, 1.0]), rng.choice([0.01, 0.1, 0.5])
    widest = rng.choice([1, 2, 4, 16])
    return Costs(
        target=tuple(1 + step * i for i in range(widest)), draft={"model": (own,)}, fixed=True
    )


def check(seed):
    rng = random.Random(seed)
    size, horizon = rng.choice([(2, 4), (2, 3), (3, 4), (3, 3), (4, 3)])
    next_law = table(rng, size)
    eos = rng.choice([(), (0,), (size - 1,), (0, 1)])
    options = {name: rng.choice(values) for name, values in AXES.items() if rng.random() < 0.2}
    prompt = [rng.randrange(size) for _ in range(rng.choice([1, 2, 5]))]
    context = rng.choice([None, None, len(prompt) + 1, len(prompt) + 2])
    limit = min(len(prompt) + horizon, context or math.inf)
    wanted = expected(next_law, SamplingParams(**options, eos=eos), prompt, limit)
    if wanted is None:
        return False
    company = []
    if rng.random() < 0.3 and context is None:
        others = {"max_tokens": 2, "num_draft": rng.choice([0, 1, 3]), "temperature": 0.5}
        company = [([rng.randrange(size)], others)]
    found = exact_law(
        TabularModel(next_law, size, eos, context=context),
        drafter(rng, size, next_law, rng.choice([None, None, len(prompt), len(prompt) + 2])),
        verifier=rng.choice(["auto", "rejection", "block", "coupled"]),
        num_draft=rng.choice([0, 1, 2, 3, 5, "auto", "auto"]),
        costs=costs(rng),
        prompt=prompt,
        max_tokens=horizon,
        company=company,
        **options,
    )
    assert total_variation(found, wanted) < 1e-12, seed
    return True


@pytest.mark.parametrize("block", range(4))
def test_random_cases(block):
    assert sum(check(seed) for seed in range(block * 500, block * 500 + 500)) > 300


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_random_cases(block):
    assert (
        sum(check(seed) for seed in range(10**6 + block * 2000, 10**6 + block * 2000 + 2000)) > 1200
    )
