"""Streams of the engine, followed from the event loop.

The engine's thread calls `listener` after each round that brought something; the loop then takes
what is there and counts it, whether somebody still waits for it or not. Nothing here waits for a
round, and what is left behind is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from forerun.engine import Completion, Engine, Piece, Prompt, Stream
from forerun.errors import EngineClosedError, ForerunError
from forerun.openai.errors import ApiError, failure, refusal
from forerun.server.metrics import Metrics, Watch
from forerun.server.workers import Workers

log = logging.getLogger("forerun.server")

T = TypeVar("T")

Progress = tuple[int, Piece | Completion]
"""The number of a choice, and what it brought: a piece, or, last, the whole."""


class Answers:
    """The choices of one request: `n` for each prompt, numbered prompt by prompt.

    `arrived` is the engine's clock (`time.monotonic`) when its body was there; at `timeout` seconds
    from then it ends.

    async with Answers(engine, metrics, …) as answers:
        await answers.submit(prompts, n, options)
        async for number, piece in answers.progress(): ...

    Leaving the block cancels what still runs. ApiError for what the engine refuses, and for a
    choice that ends in an error.
    """

    def __init__(
        self,
        engine: Engine,
        metrics: Metrics,
        *,
        tenant: str,
        arrived: float,
        timeout: float,
        maker: str = "",
        workers: Workers | None = None,
    ) -> None:
        self._engine, self._metrics = engine, metrics
        self._tenant, self._timeout = tenant, timeout
        self.maker = maker  # what computes them
        self._arrived, self._end = arrived, arrived + timeout
        self._workers = Workers(1, 1) if workers is None else workers
        self._loop = asyncio.get_running_loop()
        self._watches: dict[Stream, Watch] = {}
        self._ready: deque[tuple[Stream, Piece | Completion]] = deque()
        self._changed = asyncio.Event()
        self._left = False
        self.streams: list[Stream] = []

    async def submit(
        self, prompts: Sequence[Prompt], n: int, options: dict[str, Any], fields: Sequence[str]
    ) -> None:
        """Check and queue all of them, or none. Texts are read by a thread, not by the loop, and
        grammars by those of `workers`. Reading is not waited for beyond the time limit, nor by a
        client that has left: what it then still brings is cancelled."""
        guided = options.get("grammar") is not None

        def read() -> None:
            self._submit(prompts, n, options)

        work = asyncio.ensure_future(self._workers.run(read) if guided else in_thread(read))
        try:
            async with asyncio.timeout_at(self._loop.time() + self._end - time.monotonic()):
                await asyncio.shield(work)
        except TimeoutError:
            raise self._late() from None
        except ForerunError as error:
            raise refusal(error, fields) from error
        except Exception as error:
            if not guided:
                raise
            log.exception("grammar_failed")
            raise ApiError(
                400, "response_format cannot be used: the grammar's library failed at it",
                param="response_format",
            ) from error  # fmt: skip
        finally:
            if not (work.done() and not work.cancelled() and work.exception() is None):
                self.cancel()
                work.add_done_callback(self._abandoned)

    def _submit(self, prompts: Sequence[Prompt], n: int, options: dict[str, Any]) -> None:
        left = self._end - time.monotonic()
        if not self._left and left > 0:
            self._queue(prompts, n, left, options)

    def _queue(
        self, prompts: Sequence[Prompt], n: int, deadline: float, options: dict[str, Any]
    ) -> None:
        self.streams += self._engine.submit_batch(
            prompts, n, listener=self._listen, tenant=self._tenant, deadline=deadline, **options
        )

    def _abandoned(self, work: asyncio.Future[None]) -> None:
        """What was still read when nobody waited for it any more."""
        if not work.cancelled():
            work.exception()  # looked at: it interests nobody
        self.cancel()

    def _late(self) -> ApiError:
        """OpenAI's clients repeat a 408 of themselves; the same request would be as late again."""
        error = ApiError(408, f"the time limit of {self._timeout:g} s is over")
        error.headers["x-should-retry"] = "false"
        return error

    def _listen(self, stream: Stream) -> None:
        """In the engine's thread."""
        with suppress(RuntimeError):  # the loop is closed: the server is gone
            self._loop.call_soon_threadsafe(self._take, stream)

    def _take(self, stream: Stream) -> None:
        """What a stream has brought. It may come before `submit` has given the stream back."""
        if stream not in self._watches:
            self._watches[stream] = self._metrics.watch(self._arrived)
        watch, done = self._watches[stream], stream.done  # before its pieces: none is behind it
        if watch.ended:
            return
        for piece in stream.take():
            watch.piece(piece)
            self._ready.append((stream, piece))
        if done is not None:
            watch.end(done)
            self._ready.append((stream, done))
        if self._left:
            self._ready.clear()  # nobody waits for these any more
        self._changed.set()

    async def progress(self) -> AsyncIterator[Progress]:
        """Pieces as they come; each choice ends with its `Completion`."""
        numbers = {stream: number for number, stream in enumerate(self.streams)}
        running = len(numbers)
        while running:
            await self._changed.wait()
            self._changed.clear()
            while self._ready:
                stream, piece = self._ready.popleft()
                if isinstance(piece, Completion):
                    running -= 1
                    if piece.error is not None:
                        raise failure(piece.error) from piece.error
                    if piece.finish_reason == "cancelled":
                        raise self._ended(piece)
                yield numbers[stream], piece

    def _ended(self, done: Completion) -> ApiError:
        """Why the engine cancelled a choice: time was up, or it closes."""
        return self._late() if done.ended >= self._end else refusal(EngineClosedError())

    async def finished(self) -> list[Completion]:
        """All choices, in order."""
        whole = {
            number: piece
            async for number, piece in self.progress()
            if isinstance(piece, Completion)
        }
        return [whole[number] for number in range(len(self.streams))]

    def cancel(self) -> None:
        self._left = True
        for stream in self.streams:
            stream.cancel(wait=False)

    async def __aenter__(self) -> Answers:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.cancel()


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """What may take long, beside the loop: texts to read, a thread to wait for."""
    return await asyncio.to_thread(function, *args)


async def unless_left(
    receive: Callable[[], Any], work: asyncio.Task[Any] | Any
) -> tuple[bool, Any]:
    """(False, what `work` gives), or (True, None) once the client has closed the connection.

    `work` is cancelled then, and its cancellation waited for.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        return (False, await task) if task.done() else (True, None)
    finally:
        for one in (task, watch):
            one.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _disconnected(receive: Callable[[], Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
