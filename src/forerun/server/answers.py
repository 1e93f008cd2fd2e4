"""Streams of the engine, followed from the event loop.

The engine's thread calls `listener` after each round that brought something; that sets an event of
the loop's, and the loop takes what is there. Nothing here waits for a round, and what is left
behind is cancelled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from forerun.engine import Completion, Engine, Piece, Prompt, Stream
from forerun.errors import ForerunError
from forerun.server.errors import ApiError, failure, refusal
from forerun.server.metrics import Metrics

T = TypeVar("T")

Progress = tuple[int, Piece | Completion]
"""The number of a choice, and what it brought: a piece, or, last, the whole."""


class Answers:
    """The choices of one request: `n` for each prompt, numbered prompt by prompt.

    async with Answers(engine, metrics) as answers:
        await answers.submit(prompts, n, options)
        async for number, piece in answers.progress(): ...

    Leaving the block cancels what still runs. ApiError for what the engine refuses, and for a
    choice that ends in an error.
    """

    def __init__(self, engine: Engine, metrics: Metrics, *, tenant: str, timeout: float) -> None:
        self._engine, self._metrics = engine, metrics
        self._tenant, self._timeout = tenant, timeout
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._left = False
        self.streams: list[Stream] = []

    async def submit(
        self, prompts: Sequence[Prompt], n: int, options: dict[str, Any], fields: Sequence[str]
    ) -> None:
        """Check and queue all of them, or none. Texts are read by a thread, not by the loop."""
        work = asyncio.ensure_future(
            in_thread(self._submit, prompts, n, dict(options, deadline=self._timeout))
        )
        try:
            await asyncio.shield(work)
        except ForerunError as error:
            self.cancel()
            raise refusal(error, fields) from error
        except asyncio.CancelledError:
            self._left = True  # nobody waits for the answer any more
            with suppress(Exception):
                await work
            self.cancel()
            raise
        except BaseException:
            self.cancel()
            raise

    def _submit(self, prompts: Sequence[Prompt], n: int, options: dict[str, Any]) -> None:
        for prompt in prompts:
            if self._left:
                return
            self.streams += self._engine.submit_choices(
                prompt, n, listener=self._listen, tenant=self._tenant, **options
            )

    def _listen(self, stream: Stream) -> None:
        """In the engine's thread."""
        with suppress(RuntimeError):  # the loop is closed: the server is gone
            self._loop.call_soon_threadsafe(self._changed.set)

    async def progress(self) -> AsyncIterator[Progress]:
        """Pieces as they come; each choice ends with its `Completion`."""
        watches = [self._metrics.watch() for _ in self.streams]
        running = dict(enumerate(self.streams))
        while running:
            await self._changed.wait()
            self._changed.clear()
            now = time.perf_counter()
            for number, stream in list(running.items()):
                done = stream.done  # before its pieces are taken: then none is left behind it
                for piece in stream.take():
                    watches[number].piece(piece, now)
                    yield number, piece
                if done is not None:
                    del running[number]
                    watches[number].end(done)
                    if done.error is not None:
                        raise failure(done.error) from done.error
                    if done.finish_reason == "cancelled":
                        raise ApiError(408, f"the time limit of {self._timeout:g} s is over")
                    yield number, done

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
