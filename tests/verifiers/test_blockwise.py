"""Blockwise parallel decoding, the ancestor (Stern et al. 2018): its verify step is `coupled` at
T = 0: the longest prefix that the model would have written itself, then the model's own token.
"""

from __future__ import annotations

import numpy as np
import pytest

from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.models.tabular import TabularModel
from forerun.numerics.randomness import KeyedDraws
from forerun.numerics.token_tree import Proposal
from forerun.verifiers import verifier

V, HEADS = 7, 4


class Base:
    """A model's greedy choices, and heads that foretell the next HEADS, each right less often."""

    def __init__(self, seed):
        self.seed = seed

    def next(self, prefix):
        return int(np.random.default_rng([self.seed, *prefix]).integers(V))

    def heads(self, prefix):
        """Head k's guess of the token k places on, all from the same prefix."""
        text, found = tuple(prefix), []
        rng = np.random.default_rng([self.seed + 1, *prefix])
        for k in range(HEADS):
            token = self.next(text)
            text = (*text, token)
            found.append(token if rng.random() < 0.9 - 0.15 * k else int(rng.integers(V)))
        return found


def stern(base, prefix, guesses):
    """Section 3 of the paper: predict, verify, accept; and the base model's own next token."""
    accepted = []
    for guess in guesses:
        if base.next((*prefix, *accepted)) != guess:
            break
        accepted.append(guess)
    return [*accepted, base.next((*prefix, *accepted))]


@pytest.mark.parametrize("seed", range(20))
def test_coupled_at_temperature_zero_is_blockwise_decoding(seed):
    base, text, draws = Base(seed), [0], KeyedDraws(seed)
    lengths = set()
    for index in range(12):
        guesses = base.heads(text)
        p = [np.eye(V)[base.next((*text, *guesses[:i]))] for i in range(HEADS + 1)]
        draws.begin_round(index, len(text))
        verdict = verifier("coupled").verify(Proposal.point_mass(guesses), p, draws)
        written = [*(guesses[node] for node in verdict.path), verdict.token]
        assert written == stern(base, text, guesses)
        lengths.add(len(written))
        text += written
    plain = [0]
    while len(plain) < len(text):
        plain.append(base.next(plain))
    assert text == plain
    assert len(lengths) > 1


@pytest.mark.parametrize("seed", range(5))
def test_rounds_of_the_engine_are_blockwise_decoding(seed):
    """The same through the loop: each round writes what the paper says, with any of the heads."""
    base = Base(seed)

    class Heads(NgramDrafter):
        def propose(self, requests):
            return [Proposal.point_mass(base.heads(r.ids)[: r.num_draft]) for r in requests]

    model = TabularModel(lambda prefix: np.eye(V)[base.next(prefix)], V)
    for heads in range(1, HEADS + 1):
        engine = Engine(model, Heads(), num_draft=heads)
        done = engine.generate([0], max_tokens=30, temperature=0)
        text = [0]
        for one in done.trace:
            written = stern(base, text, base.heads(text)[:heads])[: 31 - len(text)]
            assert list(one.tokens) == written
            text += written
        assert len(text) == 31
