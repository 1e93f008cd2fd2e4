"""Who is let in: one call at a time, with all of its requests or with none.

What this module does not know: how a request is checked (`request.py`), which of those that are in
has a slot (`scheduler.py`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial

from forerun.drafters.lookup import number
from forerun.engine.driver import Driver
from forerun.engine.job import Job
from forerun.engine.request import Request
from forerun.engine.scheduler import Scheduler
from forerun.engine.shared_prompt import SharedPrompt
from forerun.engine.stream import Stream
from forerun.errors import EngineClosedError, OptionError, OverloadedError
from forerun.sampling import is_whole

CLOSED = "this engine is closed"
DRAINING = "this engine drains: it takes no more requests"

Listener = Callable[[Stream], None]
"""Called by the thread that takes the turns, so it must return at once."""


class Intake:
    """The way into a scheduler's queue, in which at most `max_waiting` wait; None: any number."""

    def __init__(
        self, scheduler: Scheduler, driver: Driver, *, max_batch: int, max_waiting: int | None
    ) -> None:
        if max_waiting is not None and not (is_whole(max_waiting) and max_waiting >= 0):
            raise OptionError(
                f"max_waiting must be a whole number of at least 0, or None, not {max_waiting!r}"
            )
        self._scheduler, self._driver = scheduler, driver
        self._max_batch, self._max_waiting = max_batch, max_waiting
        self._entry = threading.Lock()
        self._numbers = itertools.count()
        self.closed = False
        self._draining = False

    def check(self, count: int) -> None:
        """Whether so many requests would be let in now; asked before time is spent on reading them.

        EngineClosedError; OptionError for what could never be let in; OverloadedError.
        """
        if self.closed or self._draining:
            raise EngineClosedError(CLOSED if self.closed else DRAINING)
        if self._max_waiting is None:
            return
        if count > (most := self._max_batch + self._max_waiting):
            raise OptionError(
                f"{count} requests at once: this engine takes {most} at most, of which "
                f"{self._max_batch} run (max_batch) and {self._max_waiting} wait (max_waiting)"
            )
        if self._scheduler.waiting + count - self._scheduler.free > self._max_waiting:
            raise OverloadedError(
                f"{self._scheduler.waiting} requests wait, and at most {self._max_waiting} "
                f"may: no room for {count} more"
            )

    def end(self, deadline: float | None) -> float | None:
        """The scheduler's clock at which a request that has so many seconds from now ends."""
        if deadline is None:
            return None
        if not number(deadline) > 0:
            raise OptionError(f"deadline must be seconds above 0, or None, not {deadline!r}")
        return self._scheduler.clock() + deadline

    def submit(
        self,
        requests: Sequence[tuple[Request, SharedPrompt | None]],
        listener: Listener | None = None,
        end: float | None = None,
    ) -> list[Stream]:
        """All of them, or none. Raises as `check`."""
        with self._entry:
            self.check(len(requests))
            now = self._scheduler.clock()
            jobs = [
                Job(
                    request,
                    number=next(self._numbers),
                    deadline=end,
                    submitted=now,
                    shared=shared,
                )
                for request, shared in requests
            ]
            streams = [Stream(job, self._driver) for job in jobs]
            if listener is not None:
                for job, stream in zip(jobs, streams):
                    job.notify = partial(listener, stream)
            self._driver.submit(jobs)
        return streams

    def drain(self) -> None:
        """Let nobody in any more."""
        with self._entry:
            self._draining = True

    def close(self) -> None:
        """As `drain`; what is refused is told that the engine is closed."""
        with self._entry:
            self.closed = True
