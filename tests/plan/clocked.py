"""Models on a clock of their own: nothing takes time but their passes, and that is known."""

from __future__ import annotations

import numpy as np

from certify.tables import table
from forerun.models.tabular import LayeredTabularModel, TabularModel

V = 5
PERIOD = (1, 2, 3, 1, 2, 4, 1, 3)
PROMPTS = ([0, 1, 2, 3], [0, 4, 1, 2, 4, 1], [3, 1, 4])


class Clock:
    """Seconds that passes took."""

    now = 0.0

    def __call__(self):
        return self.now


class Clocked(TabularModel):
    """A pass over n rows takes `first` seconds and `more` for each further row."""

    def __init__(self, law, clock, first=1.0, more=0.05, **options):
        super().__init__(law, V, **options)
        self._clock, self._first, self._more = clock, first, more
        self.pass_seconds = tuple(first + more * n for n in range(64))

    def extend(self, steps):
        rows = sum(len(step.tokens) for step in steps)
        self._clock.now += self._first + self._more * (rows - 1)
        return super().extend(steps)


class Layered(LayeredTabularModel):
    """The same of a target that can leave layers out, whose pass takes that much less."""

    def __init__(self, law, shallow, clock, layers, first=1.0, more=0.05):
        super().__init__(law, lambda prefix, skipped: shallow(prefix), layers, V)
        self._clock, self._first, self._more, self._share = clock, first, more, 1.0
        self.pass_seconds = tuple(first + more * n for n in range(64))

    def extend(self, steps):
        rows = sum(len(step.tokens) for step in steps)
        self._clock.now += self._share * (self._first + self._more * (rows - 1))
        return super().extend(steps)

    def skim(self, steps, skipped):
        self._share = 1 - len(skipped) / self.layers
        try:
            return super().skim(steps, skipped)
        finally:
            self._share = 1.0


def mixed(salt, often=0.7, period=PERIOD):
    """Likeliest is a token that comes again and again, by and large; the rest depends on the whole
    prefix."""
    other = table(V, salt)

    def law(prefix):
        p = (1 - often) * np.asarray(other(prefix))
        p[period[len(prefix) % len(period)]] += often
        return p / p.sum()

    return law


def models(often=0.7, draft=0.6, cost=0.05, row=0.05):
    """A clock, a target on it, and a draft model that often agrees and takes `cost` a pass."""
    clock = Clock()
    target = Clocked(mixed(1, often), clock, more=row)
    small = Clocked(mixed(2, draft), clock, first=cost, more=cost / 50, name="small")
    return clock, target, small
