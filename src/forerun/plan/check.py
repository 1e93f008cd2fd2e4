"""What an engine really does with the predicted settings, beside what was predicted.

Every setting writes every text in turn, another one first each time, plain decoding among them; a
rate is of tokens after the first delivery ÷ the time since. As in `forerun bench`, whose figures it
stands for, medians over repeats count.

What this module does not know: how predictions come about.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from forerun.drafters import DRAFTERS, NEEDS, HybridDrafter
from forerun.drafters.base import Drafter
from forerun.engine.engine import Engine
from forerun.models.base import Model
from forerun.plan.forecast import Forecast, Prediction, Way
from forerun.plan.texts import Clock


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One setting: predicted and measured."""

    drafter: str  # "none": plain decoding
    num_draft: int | str
    predicted: float  # tokens a second
    measured: float
    predicted_ratio: float  # to plain decoding's
    measured_ratio: float  # in the same repeats: what else the machine does falls out

    @property
    def off(self) -> float:
        """Predicted ÷ measured − 1."""
        return self.predicted / self.measured - 1

    @property
    def ratio_off(self) -> float:
        """The same of the ratios."""
        return self.predicted_ratio / self.measured_ratio - 1


def settings(forecast: Forecast) -> list[tuple[str, Prediction]]:
    """Plain decoding, and of each way with one request its best γ and `auto`."""
    plain = Prediction(num_draft=0, rate=forecast.plain[1], tokens_per_pass=1.0, drafted=0.0)
    found = [("none", plain)]
    for way in forecast.ways:
        if way.slots == 1:
            found += [(way.drafter, one) for one in _worth_checking(way)]
    return found


def _worth_checking(way: Way) -> list[Prediction]:
    fixed = max(way.fixed, key=lambda one: one.rate)
    return [fixed] if way.auto is None else [fixed, way.auto]


def check(
    target: Model,
    forecast: Forecast,
    *,
    given: Mapping[str, Any] | None = None,
    repeats: int = 3,
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda what: None,
    clock: Clock = perf_counter,
) -> list[Checked]:
    """Measure them all, on the texts' prompts."""
    wanted = settings(forecast)
    engines = [
        Engine(target, _drafter(name, given or {}), num_draft=cast(Any, one.num_draft), cache=cache)
        for name, one in wanted
    ]
    for engine in engines:
        if engine.drafter is not None:
            engine.costs()
    rates: list[list[float]] = [[] for _ in wanted]
    for turn in range(repeats):
        for shift in range(len(wanted)):
            i = (turn + shift) % len(wanted)
            progress(f"measuring {wanted[i][0]}, {turn + 1} of {repeats}")
            rates[i].append(_rate(engines[i], forecast, clock))
    return [
        Checked(
            drafter=name,
            num_draft=one.num_draft,
            predicted=one.rate,
            measured=statistics.median(found),
            predicted_ratio=one.rate / wanted[0][1].rate,
            measured_ratio=statistics.median(a / b for a, b in zip(found, rates[0])),
        )
        for (name, one), found in zip(wanted, rates)
    ]


def _rate(engine: Engine, forecast: Forecast, clock: Clock) -> float:
    tokens, seconds = 0, 0.0
    for text in forecast.texts:
        with engine.stream(text.request.prompt, **forecast.options) as stream:
            arrivals = [(clock(), len(piece.tokens)) for piece in stream]
        tokens += sum(count for _, count in arrivals[1:])
        seconds += arrivals[-1][0] - arrivals[0][0]
    return tokens / seconds


def _drafter(names: str, given: Mapping[str, Any]) -> Drafter | None:
    made = [_made(name, given) for name in names.split("+")]
    found = [one for one in made if one is not None]
    return HybridDrafter(found) if len(found) > 1 else found[0] if found else None


def _made(name: str, given: Mapping[str, Any]) -> Drafter | None:
    argument = NEEDS[name][0] if name in NEEDS else None
    return DRAFTERS[name](**({} if argument is None else {argument: given[argument]}))
