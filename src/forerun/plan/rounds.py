"""What a round takes: seconds by rows, for so many requests that share it.

    text     a b c d e f g h i j …
    rounds   │a b c│d│e f g h i│ …        two drafted, none, four: each a real round, all accepted

The target's own text is drafted, so that `decode_round` writes it again, with as many tokens at a
time as is to be measured: passes, laws, coins and bookkeeping at the very places where a user's
rounds take place. Randomness is scripted: a coin is tossed and a token drawn as ever, which costs
what it costs, and then the text's own is taken. Sizes come in another order each time; the median
of each counts, wider rounds cost no less, and between those measured seconds are interpolated.

What this module does not know: who drafts otherwise, and what an engine adds to a round.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from forerun.control import FixedControl
from forerun.decode import decode_round
from forerun.drafters.prediction import PredictionDrafter
from forerun.engine.request import new_generation
from forerun.errors import CacheError
from forerun.generation import Generation
from forerun.models.base import Model
from forerun.models.cost import interpolated, monotone
from forerun.numerics.randomness import Key, KeyedDraws, Purpose
from forerun.pace import table
from forerun.plan.texts import Clock, Text
from forerun.reading import read_prompt

GAMMAS = (0, 1, 2, 3, 4, 6, 8, 11, 15)  # that are measured
FEW = (0, 1, 3, 7)  # of several requests at once
MOST_ROWS = 128
LEAST, MOST = 5, 15  # rounds of each size


@dataclass(frozen=True, kw_only=True)
class RoundCosts:
    """Seconds of a round of `slots` requests over 1, 2, … rows, from `slots` rows on."""

    slots: int
    rows: tuple[int, ...]  # that were measured
    seconds: tuple[float, ...]  # of `slots`, `slots` + 1, … rows
    measured: dict[int, Sequence[float]] = field(default_factory=dict)  # each round, by rows

    def of(self, rows: int) -> float:
        return table(self.seconds, rows - self.slots + 1)

    @property
    def by_rows(self) -> tuple[float, ...]:
        """Of 1, 2, … rows; fewer than the requests never come."""
        return (self.seconds[0],) * (self.slots - 1) + self.seconds


class Scripted(KeyedDraws):
    """Keyed noise that is made, and not heeded: what comes is the text."""

    def __init__(self, seed: int, text: Sequence[int]) -> None:
        super().__init__(seed)
        self._text = text

    def begin_round(self, index: int, position: int) -> None:
        super().begin_round(index, position)
        self._next = position  # of the token that `draw` gives, once drafts before it are accepted

    def accept(self, probability: float, key: Key) -> bool:
        super().accept(probability, key)
        return True

    def draw(self, law: Any, key: Key) -> int:
        super().draw(law, key)
        return self._at(self._next + key[0] + 1)

    def race(self, law: Any, path: tuple[int, ...], purpose: Purpose) -> int:
        super().race(law, path, purpose)
        return self._at(self._next + len(path))

    def _at(self, position: int) -> int:
        return self._text[min(position, len(self._text) - 1)]


def measure(
    target: Model,
    texts: Sequence[Text],
    verifier: str,
    *,
    slots: int = 1,
    seconds: float = 5.0,
    clock: Clock = perf_counter,
) -> RoundCosts | None:
    """Rounds of `slots` requests, for about so many seconds; None where there is no room."""
    sizes = GAMMAS if slots == 1 else FEW
    gammas = [n for n in sizes if n == 0 or slots * (1 + n) <= MOST_ROWS]
    times = {slots * (1 + n): list[float]() for n in gammas}
    began, turn = clock(), 0
    while min(map(len, times.values())) < LEAST or (
        clock() - began < seconds and min(map(len, times.values())) < MOST
    ):
        some = [texts[(turn + i) % len(texts)] for i in range(slots)]
        try:
            _written_again(target, some, verifier, gammas, times, clock, turn)
        except CacheError:
            return None
        turn += 1
    rows = sorted(times)
    found = monotone([statistics.median(times[n]) for n in rows])
    return RoundCosts(
        slots=slots,
        rows=tuple(rows),
        seconds=interpolated([n - slots + 1 for n in rows], found),
        measured=dict(times),
    )


def _written_again(
    target: Model,
    texts: Sequence[Text],
    verifier: str,
    gammas: Sequence[int],
    times: dict[int, list[float]],
    clock: Clock,
    turn: int,
) -> None:
    """Write the texts again, in rounds of every size; as far as the shortest of them reaches."""
    length = min(len(text.output) for text in texts)
    batch: list[Generation] = []
    drafter = PredictionDrafter([])
    order = _orders(gammas, turn)
    try:
        for text in texts:
            batch.append(_generation(target, text, verifier))
            drafter.begin(batch[-1].slot, text.request.prompt)
            drafter.follow(batch[-1].slot, text.output)
            read_prompt(batch[-1], target)
        while (left := length - len(batch[0].output)) > 2:
            wanted = next(order)
            for g in batch:
                g.control = FixedControl(min(wanted, left - 2))
            start = clock()
            (record, *_) = decode_round(batch, target, drafter)
            took = clock() - start
            if len(record.drafted) == wanted:  # not the last, which the end of the text cuts
                times[len(batch) * (1 + wanted)].append(took)
    finally:
        for g in batch:
            target.close(g.slot)


def _generation(target: Model, text: Text, verifier: str) -> Generation:
    """A request at its beginning, in a slot."""
    request = replace(text.request, verifier=verifier, num_draft=0)
    draws = Scripted(request.seed, (*request.prompt, *text.output))
    g = new_generation(target, request, draws)
    g.slot = target.open()
    return g


def _orders(gammas: Sequence[int], turn: int) -> Iterator[int]:
    """All of them, again and again, each time in another order."""
    dice, order = random.Random(turn), list(gammas)
    while True:
        dice.shuffle(order)
        yield from order
