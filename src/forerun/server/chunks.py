"""A stream of either endpoint, as events.

    opening of each choice -> parts and endings, as they come -> usage and statistics

What may take long (a prompt that is echoed, the log-probabilities of a whole text, the counts of
thousands of rounds) is made in a thread: the event loop has other streams to send.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from forerun.engine import Completion
from forerun.openai.delta import Delta
from forerun.openai.endpoint import Endpoint, Head
from forerun.openai.usage import metrics, usage
from forerun.server.answers import in_thread
from forerun.server.events import event


async def chunks(
    endpoint: Endpoint,
    head: Callable[[], Head],
    deltas: AsyncIterator[Delta],
    block: int = 0,
) -> AsyncIterator[bytes]:
    """Events, padded to a multiple of `block` bytes where that is not 0."""
    body = endpoint.body
    with_usage = bool(body.stream_options and body.stream_options.include_usage)
    n = body.n or 1
    whole: dict[int, Completion] = {}

    def made(part: object | None) -> bytes | None:
        if part is None:
            return None
        chunk = endpoint.chunk(head(), [part])
        if with_usage:
            chunk.usage = None
        return event(chunk, block)

    def opened(index: int) -> bytes | None:
        return made(endpoint.opening(index))

    def ended(delta: Delta) -> bytes | None:
        return made(endpoint.ending(delta))

    def closed() -> bytes:
        choices = [whole[i] for i in sorted(whole)]
        chunk = endpoint.chunk(head(), [])
        chunk.usage = usage(choices, n, predicted=body.prediction is not None)
        chunk.metrics = metrics(choices)
        endpoint.closing(chunk, choices)
        return event(chunk, block)

    for index in range(len(endpoint.prompts) * n):
        if (first := await in_thread(opened, index)) is not None:
            yield first
    async for delta in deltas:
        if delta.done is None:
            next_one = made(endpoint.part(delta))
        else:
            whole[delta.choice] = delta.done
            next_one = await in_thread(ended, delta)
        if next_one is not None:
            yield next_one
    if with_usage:
        yield await in_thread(closed)
