"""Samples in submission order, however soon or late each of them is done.

The order is fixed before anything is sampled: answers are handed on in it, whichever came first.
At a stop no request is begun any more, and those that run are waited for (drained); one that does
not end in time is dropped with all behind it. Taking what happens to be finished would take short
texts more often than long ones, and an honest engine would fail for that.

A failed request is asked again with the same seed. One that keeps failing ends the collection
there: it is counted and never skipped, for what fails may depend on what was drawn.

What this module does not know: what is asked, and what becomes of the answers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from typing import Any

from forerun.certify.engines.base import Engine, Tokens, Told, asked
from forerun.errors import CapabilityError, ForerunError, PeerError

TRIES = 3
DRAIN = 60.0
"""Seconds that running requests are waited for at a stop."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request, before it is sent."""

    number: int  # its first sample's, in submission order
    setting: str
    prompt: tuple[int, ...]
    prompt_number: int
    n: int
    sampling: Mapping[str, Any]
    seed: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of it: samples, or why there are none."""

    ask: Ask
    samples: tuple[Tokens, ...] = ()
    told: tuple[Told, ...] = ()  # of each sample
    error: str | None = None
    unable: bool = False  # the engine cannot do it at all: no fault of its law
    failures: int = 0  # attempts that failed before this came of it
    seconds: float = 0.0


def collect(
    engine: Engine,
    asks: Iterable[Ask],
    *,
    stop: Callable[[], bool] = lambda: False,
    tries: int = TRIES,
    drain: float = DRAIN,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Answer]:
    """Answers in the order of `asks`, up to the first that failed for good.

    stop  looked at before each request is begun
    """
    if engine.traits.parallel <= 1:
        yield from _in_turn(engine, asks, stop, tries, clock)
        return
    pool = ThreadPoolExecutor(engine.traits.parallel, thread_name_prefix="collect")
    running: deque[tuple[Ask, Future[Answer]]] = deque()
    coming = iter(asks)
    stopped: float | None = None
    try:
        while True:
            while stopped is None and len(running) < engine.traits.parallel:
                ask = None if stop() else next(coming, None)
                if ask is None:
                    stopped = clock()
                else:
                    running.append((ask, pool.submit(_answer, engine, ask, tries, clock)))
            if not running:
                return
            ask, future = running.popleft()
            try:
                left = None if stopped is None else max(stopped + drain - clock(), 0.0)
                answer = future.result(left)
            except Late:  # it, and all behind it
                yield Answer(ask=ask, error=f"not done {drain:g} s after the stop: dropped")
                return
            yield answer
            if answer.error is not None:
                return
            if stopped is None and stop():
                stopped = clock()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _in_turn(
    engine: Engine,
    asks: Iterable[Ask],
    stop: Callable[[], bool],
    tries: int,
    clock: Callable[[], float],
) -> Iterator[Answer]:
    coming = iter(asks)
    while not stop() and (ask := next(coming, None)) is not None:
        answer = _answer(engine, ask, tries, clock)
        yield answer
        if answer.error is not None:
            return


def _answer(engine: Engine, ask: Ask, tries: int, clock: Callable[[], float]) -> Answer:
    start, said = clock(), ""
    for attempt in range(tries):
        try:
            found = asked(engine, ask.prompt, ask.n, ask.sampling, ask.seed)
        except PeerError as error:
            said = str(error)
        except CapabilityError as error:
            return Answer(ask=ask, error=str(error), unable=True, failures=attempt)
        except ForerunError as error:
            said = str(error)
        else:
            return Answer(
                ask=ask,
                samples=tuple(tokens for tokens, _ in found),
                told=tuple(told for _, told in found),
                failures=attempt,
                seconds=clock() - start,
            )
    return Answer(ask=ask, error=said, failures=tries, seconds=clock() - start)
