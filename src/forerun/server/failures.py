"""Errors that nobody foresaw, answered within the other middlewares: such an answer has its name,
its headers for browsers, and its place in the counts, as all others have."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forerun.openai.errors import failure
from forerun.server.replies import error_response

log = logging.getLogger("forerun.server")


class Failures:
    """ASGI: 500 for an exception, unless the answer has begun; then the connection breaks off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            log.exception("request_failed")
            scope.setdefault("state", {})["error"] = type(error).__name__
            if begun:
                raise
            await error_response(failure(None))(scope, receive, send)
