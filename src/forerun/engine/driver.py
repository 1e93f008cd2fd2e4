"""Who takes the turns: a thread of its own, or whoever waits.

A turn is taken by one thread at a time, which holds the seat. Without `start`, a thread that waits
for something takes turns until it is there; while another has the seat it sleeps, and is woken
after each turn. So calls of several threads share rounds, and none waits for another's whole call.

A stream that is dropped is cancelled by whoever collects garbage: maybe by a thread in the middle
of a turn of its own, or of this module. So `cancel` takes no lock that it would have to wait for:
it notes the request, and the seat is tried, not waited for. Who holds it looks at the notes after
the turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic

from forerun.engine.job import Job
from forerun.engine.scheduler import Scheduler
from forerun.errors import OptionError

log = logging.getLogger("forerun")


class Sleeper:
    """Waits for the bell; what rang since the last wait counts."""

    def __init__(self) -> None:
        self._rung: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.get_ident()

    def rouse(self) -> None:
        """Nobody wakes himself: a thread that never sleeps for its own noise would never sleep."""
        if threading.get_ident() != self._thread:
            self._rung.put(None)  # of a SimpleQueue: takes no lock of Python's

    def wait(self, timeout: float | None = None) -> bool:
        """False where time ran out."""
        try:
            self._rung.get(timeout=timeout)
        except Empty:
            return False
        while not self._rung.empty():  # one look at what changed will do for all of these
            self._rung.get_nowait()
        return True


class Bell:
    """Wakes the threads that sleep but the one that rings; may be rung in a finalizer too."""

    def __init__(self) -> None:
        self._sleepers: set[Sleeper] = set()

    @contextmanager
    def listening(self) -> Iterator[Sleeper]:
        """This thread hears each ring of another from now on."""
        sleeper = Sleeper()
        self._sleepers.add(sleeper)
        try:
            yield sleeper
        finally:
            self._sleepers.discard(sleeper)

    def ring(self) -> None:
        for sleeper in self._sleepers.copy():
            sleeper.rouse()


class Driver:
    """Lets one thread at a time take a turn of the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._seat = threading.Lock()
        self._holder: int | None = None  # thread that has the seat
        self._bell = Bell()
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------ by any thread

    def submit(self, jobs: list[Job]) -> None:
        self._scheduler.arrived.extend(jobs)
        self._bell.ring()

    def cancel(self, job: Job, *, wait: bool) -> None:
        """End it now, or after the turn that is being taken; `wait` for another thread's."""
        if job.done is None:
            self._scheduler.left.append(job)
            self._sweep()
            if wait and not self.inside:
                self.until(lambda: job.done is not None)

    @property
    def inside(self) -> bool:
        """Whether this thread is in the middle of a turn of its own."""
        return self._holder == threading.get_ident()

    def until(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait, taking turns where no thread of its own does; False where time ran out.

        OptionError in the middle of a turn of one's own: it would wait for itself.
        """
        if ready():
            return True
        self._check_outside()
        end = None if timeout is None else monotonic() + timeout
        with self._bell.listening() as sleeper:
            while not ready():
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    return False
                if self._thread is None and self._seat.acquire(blocking=False):
                    self._take()
                    continue
                if not sleeper.wait(left):
                    return ready()
        return True

    def turn(self) -> bool:
        """One turn, after another thread's if need be; False where there was nothing to do."""
        self._check_outside()
        self._seat.acquire()
        return self._take()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody takes a turn meanwhile."""
        self._check_outside()
        with self._seat:
            yield
        self._sweep()

    def _check_outside(self) -> None:
        if self.inside:
            raise OptionError("a processor or drafter cannot call the engine it runs in")

    # ------------------------------------------------------------------ a thread of its own

    def start(self) -> None:
        """Take turns in a thread as work arrives, from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="forerun", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End what is there, and that thread after its turn."""
        self._scheduler.closed = True
        thread = self._thread
        self._sweep()
        if self.inside:
            return  # who takes the turn ends them after it
        if thread is not None:
            thread.join()
        self.until(lambda: self._scheduler.idle)

    def _serve(self) -> None:
        try:
            with self._bell.listening() as sleeper:
                while not self._scheduler.closed:
                    try:
                        self.turn()
                    except BaseException:  # a library's panic, too: others wait for this thread
                        log.exception("a round broke off; what ran ended in error")
                    if self._scheduler.idle and not self._scheduler.closed:
                        sleeper.wait()
        finally:
            self._thread = None
            self._bell.ring()

    # ------------------------------------------------------------------ with the seat

    def _take(self) -> bool:
        """A turn by this thread, which has just got the seat; gives it back."""
        try:
            self._holder = threading.get_ident()
            return self._scheduler.turn()
        finally:
            self._holder = None
            self._seat.release()
            self._sweep()

    def _sweep(self) -> None:
        """End what was cancelled, unless a turn is being taken, or is going to be by the thread
        that serves: who takes it comes by here, and an event loop must not wait for this work."""
        serving = self._thread
        mine = serving is None or serving is threading.current_thread()
        while mine and self._scheduler.leaving and self._seat.acquire(blocking=False):
            try:
                self._holder = threading.get_ident()
                self._scheduler.retire()
            finally:
                self._holder = None
                self._seat.release()
        self._bell.ring()
