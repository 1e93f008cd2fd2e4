"""A long prompt beside others: how long they wait, by a clock that the model moves."""

from __future__ import annotations

import itertools

import pytest

from certify.tables import table
from forerun import Engine
from forerun.engine.prompt_pace import PromptPace
from forerun.models.tabular import TabularModel
from forerun.reading import CHUNK, LEAST

from .fakes import V

ROUND = 1.01  # seconds of a pass over one token


class Slow(TabularModel):
    """A pass takes a second, and a hundredth of one for each token."""

    now = 0.0

    def extend(self, steps):
        self.now += 1 + 0.01 * sum(len(step.tokens) for step in steps)
        return super().extend(steps)


def longest_wait(prompt, paced=True):
    """Between two pieces of a request, in seconds, while another's prompt is read."""
    model = Slow(table(V, 1), V)
    engine = Engine(model, num_draft=0, costs=[1.0])
    engine._scheduler.clock = lambda: model.now
    if not paced:
        engine._scheduler._pace.tokens = lambda *, decoding: CHUNK
    writer = engine.submit([1], max_tokens=10_000, seed=1)
    for _ in range(3):
        engine.turn()
    reader = engine.submit([i % V for i in range(prompt)], max_tokens=1, seed=2)
    while reader.done is None:
        assert engine.turn()
    times = [piece.at for piece in writer.take()]
    return max(after - before for before, after in itertools.pairwise(times))


@pytest.mark.parametrize("prompt", [100, 1000])
def test_a_long_prompt_adds_about_a_round_to_each(prompt):
    """Its first pass is 64 tokens, for nothing is known of a token's cost then; later ones are as
    long as a round, or LEAST tokens."""
    assert longest_wait(prompt) <= ROUND + 1.64 + 1e-9


def test_without_a_pace_it_would_be_six():
    assert longest_wait(1000, paced=False) > 6 * ROUND


def test_nobody_is_kept_waiting_where_nobody_decodes():
    pace = PromptPace()
    pace.decoded(0.001)
    pace.read(10, 100.0)
    assert pace.tokens(decoding=False) == CHUNK


@pytest.mark.parametrize(("token", "expected"), [(0.1, LEAST), (0.01, 100), (0.0001, CHUNK)])
def test_a_pass_over_prompts_is_as_long_as_a_round(token, expected):
    pace = PromptPace()
    assert pace.tokens(decoding=True) == 4 * LEAST
    pace.decoded(1.0)
    pace.read(50, 50 * token)
    assert pace.tokens(decoding=True) == pytest.approx(expected, abs=1)


def test_a_pass_that_read_nothing_says_nothing():
    pace = PromptPace()
    pace.decoded(1.0)
    pace.read(100, 1.0)
    pace.read(0, 5.0)
    assert pace.tokens(decoding=True) == 100


def test_one_slow_round_does_not_set_the_pace():
    pace = PromptPace()
    pace.read(100, 1.0)
    pace.decoded(1.0)
    pace.decoded(11.0)
    assert pace.tokens(decoding=True) == pytest.approx(400, abs=1)
