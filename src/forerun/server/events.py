"""Server-sent events: a JSON object each, `[DONE]` after the last.

An error in mid-stream is an event `{"error": …}`, and then the stream ends, without `[DONE]`: who
does not look at errors does not take half an answer for a whole one.

The client's leaving ends everything behind the stream at once. One that does not read is waited
for (`readers.py` says how long): its pieces wait in memory, max_tokens of them at most, and the
engine goes on.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forerun.openai.errors import ApiError, failure
from forerun.openai.responses import Chunk
from forerun.server.answers import unless_left

log = logging.getLogger("forerun.server")

DONE = b"data: [DONE]\n\n"


class EventStream(Response):
    """Sends `events`; `leave` is called in the end, whatever the end is."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.headers["x-accel-buffering"] = "no"  # nginx would gather events
        self._source, self._leave = events, leave
        self._state: dict[str, Any] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._state = scope.setdefault("state", {})
            self._state["left"], _ = await unless_left(receive, self._write(send))
        finally:
            self._leave()

    async def _write(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for event in self._events():
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._source:
                yield event
            yield DONE
        except ApiError as error:
            self._state["error"] = error.type
            yield f"data: {error.to_json()}\n\n".encode()
        except Exception as error:
            log.exception("stream_failed")
            self._state["error"] = type(error).__name__
            yield f"data: {failure(error).to_json()}\n\n".encode()


def event(chunk: Chunk, block: int = 0) -> bytes:
    """One event; padded with spaces in a field of its own to a multiple of `block` bytes."""
    if not block:
        return f"data: {chunk.to_json()}\n\n".encode()
    chunk.obfuscation = ""
    bare = f"data: {chunk.to_json()}\n\n".encode()
    chunk.obfuscation = "-" * (math.ceil(len(bare) / block) * block - len(bare))
    return f"data: {chunk.to_json()}\n\n".encode()
