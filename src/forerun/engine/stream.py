"""A completion as it grows: one piece for each round."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

from forerun.decode import Generation
from forerun.drafters.base import Drafter
from forerun.engine.request import Completion, Piece, Request, completion, refused
from forerun.engine.stops import TextFollower
from forerun.errors import ForerunError
from forerun.trace import Kind, Round

Progress = tuple[Request, Generation | ForerunError, Round | None]
"""A request after a round of its own; no record where the round failed, the error alone where the
request never got a slot."""


class Stream(Iterator[Piece]):
    """Pieces of one completion, one for each round; `done` holds the whole once it has ended.

    `cancel()` ends it after the current round, from any thread; leaving a `with` block or dropping
    it does too.
    """

    def __init__(
        self, request: Request, progress: Generator[Progress, None, None], drafter: Drafter | None
    ) -> None:
        self._request, self._drafter = request, drafter
        self._progress = progress
        self._trace: list[Round] = []
        self._kinds: list[Kind] = []  # by token
        self._shown = 0  # characters handed out
        self._token = 0  # the token whose text comes next
        self._generation: Generation | None = None
        self._reading = threading.RLock()
        self._inside = False  # a round is being read
        self._cancelled = False
        self.done: Completion | None = None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Piece:
        with self._reading:
            self._inside = True
            try:
                return self._next()
            finally:
                self._inside = False
                if self._cancelled:
                    self._stop()

    def _next(self) -> Piece:
        if self.done is not None:
            raise StopIteration
        for _, g, record in self._progress:
            if isinstance(g, ForerunError):
                self.done = refused(self._request, g, self._drafter)
                raise g
            self._generation = g
            if record is not None:
                self._trace.append(record)
                self._kinds += record.kinds
            if g.finish_reason is not None:
                self._end(g)
            if g.error is not None:
                raise g.error
            if record is not None:
                return self._piece(g, record)
        raise StopIteration

    def cancel(self) -> Completion | None:
        """End it now; what was delivered so far is in `done` (None if nothing had begun)."""
        self._cancelled = True
        with self._reading:  # another thread's round is waited for
            if not self._inside:  # a round of this very thread stops when it is over
                self._stop()
        return self.done

    def _stop(self) -> None:
        if self.done is None and (g := self._generation) is not None:
            g.finish_reason = "cancelled"
            self._end(g)
        self._progress.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.cancel()

    def _end(self, g: Generation) -> None:
        self.done = completion(self._request, g, self._trace)

    def _piece(self, g: Generation, record: Round) -> Piece:
        parts = self._new_parts(g)
        return Piece(
            text="".join(text for text, _ in parts),
            tokens=record.tokens,
            kinds=record.kinds,
            parts=parts,
            logprobs=record.logprobs,
            round=record,
        )

    def _new_parts(self, g: Generation) -> tuple[tuple[str, Kind], ...]:
        """Text that became showable, split by the token that completed it."""
        if not isinstance(g.follower, TextFollower):
            return ()
        follower = g.follower
        upto = len(follower.text) if g.finish_reason is not None else follower.showable()
        parts: list[tuple[str, Kind]] = []
        while self._shown < upto:
            end = min(follower.ends[self._token], upto)
            if self._shown < end:
                parts.append((follower.text[self._shown : end], self._kinds[self._token]))
                self._shown = end
            if end < upto:
                self._token += 1
        return tuple(parts)
