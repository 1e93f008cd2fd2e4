"""Bodies of bounded size that arrive in bounded time.

A body is read here, whole, before anything looks at it: JSON cannot be used in parts. What is over
the limit is not read on.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forerun.openai.errors import ApiError, overloaded
from forerun.server.replies import error_response


class BodyLimit:
    """ASGI: 413 for a body of more than `most` bytes, 408 for one that takes over `seconds`, 429
    while those that are being answered have more than `together` bytes.

    Says when a body was there: `arrived`, seconds of `time.monotonic`, in the request's state.
    """

    def __init__(self, app: ASGIApp, most: int, together: int, seconds: float) -> None:
        self._app, self._most, self._together, self._seconds = app, most, together, seconds
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        parts: list[bytes] = []
        try:
            try:
                whole = await self._read(Headers(scope=scope), receive, parts)
            except ApiError as error:
                error.headers["connection"] = "close"  # the rest of the body is not waited for
                await error_response(error)(scope, receive, send)
                return
            if whole:
                scope.setdefault("state", {})["arrived"] = time.monotonic()
                await self._answer(b"".join(parts), scope, receive, send)
        finally:
            self._held -= sum(map(len, parts))

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        read: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return read.pop() if read else await receive()

        await self._app(scope, replay, send)

    async def _read(self, headers: Headers, receive: Receive, parts: list[bytes]) -> bool:
        """Into `parts`; False where the client has left."""
        stated = headers.get("content-length", "")
        if stated.isdecimal() and int(stated) > self._most:
            raise self._too_large(f"{int(stated)} bytes")
        size, more = 0, True
        try:
            async with asyncio.timeout(self._seconds):
                while more:
                    message: Any = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._held += len(parts[-1])
                    if size > self._most:
                        raise self._too_large("more")
                    if parts[-1] and self._held > self._together:
                        raise self._too_much()
                    more = message.get("more_body", False)
        except TimeoutError:
            raise ApiError(408, f"the body did not arrive within {self._seconds:g} s") from None
        return True

    def _too_much(self) -> ApiError:
        return overloaded(
            f"requests of {self._together} bytes are being answered: no room for more"
        )

    def _too_large(self, what: str) -> ApiError:
        return ApiError(
            413, f"the body has {what}; this server takes {self._most} bytes at most",
            code="body_too_large",
        )  # fmt: skip
