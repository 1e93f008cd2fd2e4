"""A completion as it grows: one piece for each round."""

from __future__ import annotations

from collections.abc import Iterator

from forerun.engine.completion import Completion, Piece
from forerun.engine.driver import Driver
from forerun.engine.job import Job


class Stream(Iterator[Piece]):
    """Pieces of one completion, one for each round; `done` holds the whole once it has ended.

    Iterating waits for pieces, and raises what ended the request in error after the last of them.
    `take` and `wait` are for those who must not block, or only so long; they raise nothing of the
    request's, `done.error` has it. `cancel()` ends it after the current round, from any thread;
    leaving a `with` block or dropping the stream does too. Of text that is held back because a stop
    string may begin with it, a cancelled stream has no piece; it is in `done.text`.

    All of it may be called from any thread. Without `Engine.start()` whoever waits takes turns for
    all requests of the engine.
    """

    def __init__(self, job: Job, driver: Driver) -> None:
        self._job, self._driver = job, driver
        self._raised = False

    @property
    def seed(self) -> int:
        """The request's own, or the fresh one it was given."""
        return self._job.request.seed

    @property
    def done(self) -> Completion | None:
        return self._job.done

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Piece:
        while True:
            over = self._job.done is not None  # looked at first: pieces come before the end
            if self._job.pieces:
                try:
                    return self._job.pieces.popleft()
                except IndexError:  # another thread took it
                    continue
            if over:
                break
            self._driver.until(self._moved)
        done = self._job.done
        if done is not None and done.error is not None and not self._raised:
            self._raised = True
            raise done.error
        raise StopIteration

    def take(self) -> list[Piece]:
        """The pieces that are there and were not taken yet; never waits."""
        taken = []
        while self._job.pieces:
            try:
                taken.append(self._job.pieces.popleft())
            except IndexError:
                break
        return taken

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end, `timeout` seconds at most; whether it has ended."""
        return self._driver.until(lambda: self._job.done is not None, timeout)

    def cancel(self, *, wait: bool = True) -> Completion | None:
        """End it now; what was made so far is in `done`.

        Another thread's round is waited for where `wait`. None where it has not ended yet: without
        `wait`, or called in the middle of this thread's own round, which ends it.
        """
        self._driver.cancel(self._job, wait=wait)
        return self._job.done

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()

    def __del__(self) -> None:
        if (driver := getattr(self, "_driver", None)) is not None:
            driver.cancel(self._job, wait=False)

    def _moved(self) -> bool:
        return bool(self._job.pieces) or self._job.done is not None
