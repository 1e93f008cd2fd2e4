"""Connections that say nothing, or one header after another without an end, are not waited for.

uvicorn bounds the time between two requests of a connection, and `limits.py` that of a body. What
lies between them is bounded here: from the first byte of a request, or the opening of the
connection, until its headers are there.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("forerun.server")


def patient(seconds: float) -> type[asyncio.Protocol]:
    """The protocol that waits so long for a request's headers, and closes the connection then."""

    class Patient(H11Protocol):
        _wait: asyncio.TimerHandle | None = None
        _last: Any = None  # the request that was read last

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait = self.loop.call_later(seconds, self._late)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not self._last:
                self._last = self.cycle
                self._stop()
            elif self._wait is None and self.cycle.response_complete:
                self._wait = self.loop.call_later(seconds, self._late)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _stop(self) -> None:
            if self._wait is not None:
                self._wait.cancel()
                self._wait = None

        def _late(self) -> None:
            log.warning("headers_late", extra={"fields": {"seconds": seconds}})
            self.transport.close()

    return Patient
