"""Clients that do not read what they asked for.

An answer waits in memory until its client takes it, so it does not wait for ever. Large ones are
handed over in parts, as a server tells only before the next part that the last was not taken.
What is then still in the system's own buffers is `run.py`'s to drop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("forerun.server")

PART = 64 << 10  # bytes


class Unread(Exception):
    """A part of an answer was not taken in time."""


class Readers:
    """ASGI: an answer of which nothing is taken for `seconds` breaks off."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def patiently(message: Message) -> None:
            for part in parts(message):
                try:
                    async with asyncio.timeout(self._seconds):
                        await send(part)
                except TimeoutError:
                    raise Unread from None

        try:
            await self._app(scope, receive, patiently)
        except Unread:
            log.warning("reader_dropped", extra={"fields": {"seconds": self._seconds}})


def parts(message: Message) -> Iterator[Message]:
    """The same, in messages of at most `PART` bytes of body."""
    body = message.get("body", b"")
    if len(body) <= PART:
        yield message
        return
    for at in range(0, len(body), PART):
        last = at + PART >= len(body)
        yield {
            **message,
            "body": body[at : at + PART],
            "more_body": message.get("more_body", False) or not last,
        }
