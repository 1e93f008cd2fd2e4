"""Names a server on loopback answers to. A web page can let its own name lead to 127.0.0.1 and so
ask a server of the machine (DNS rebinding); its requests then bear that name.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from forerun.openai.errors import ApiError
from forerun.server.replies import error_response

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Hosts:
    """ASGI: 400 for a request to a host that is none of `hosts`; none given, or "*": to any."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._hosts and "*" not in self._hosts:
            host = without_port(Headers(scope=scope).get("host", ""))
            if host not in self._hosts:
                error = ApiError(
                    400, f"this server does not answer to the host {host[:80]!r}; --allowed-host "
                    "adds names"
                )  # fmt: skip
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def without_port(host: str) -> str:
    """Of a Host header, in small letters."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() else host.strip().lower()


def loopback(host: str) -> bool:
    """Whether a server bound to `host` is reached from its own machine alone."""
    return host in (*LOOPBACK, "::1") or host.startswith("127.")
