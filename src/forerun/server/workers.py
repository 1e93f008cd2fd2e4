"""Threads for work that may take very long and that nobody can end: the reading of grammars.

They are few, so that such work leaves the threads for other requests alone, and daemons, so that
the server may end before they do.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from forerun.errors import OverloadedError

T = TypeVar("T")


class Workers:
    """`threads` at work at once, and at most `waiting` pieces of work behind them."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads, self._waiting = threads, waiting
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._begun = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives, or raises; OverloadedError where too much waits."""
        if self._queue.qsize() >= self._waiting:
            raise OverloadedError(
                f"{self._waiting} grammars wait to be read, and no more may: try again later"
            )
        if self._begun < self._threads:
            self._begun += 1
            threading.Thread(target=self._work, name="forerun-grammars", daemon=True).start()
        future: Future[T] = Future()
        self._queue.put((future, work))
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        while True:
            future, work = self._queue.get()
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                future.set_result(work())
            except BaseException as error:  # a panic of a library's is no Exception
                future.set_exception(error)
            del future, work  # or they live until the next one comes
