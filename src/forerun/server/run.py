"""Sockets and signals: the first SIGTERM or SIGINT drains, the second ends at once.

Draining: no new connections, those that are answered are answered to their end (`timeout` bounds
that), then the engine closes. On the second signal nothing is waited for, threads neither.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
from dataclasses import replace
from types import FrameType
from typing import Any

import uvicorn

from forerun.engine import Engine
from forerun.errors import OptionError
from forerun.server.app import create_app, create_page
from forerun.server.config import ServerConfig
from forerun.server.hosts import LOOPBACK, loopback
from forerun.server.patience import patient

log = logging.getLogger("forerun.server")


class Server(uvicorn.Server):
    """Serves `engine` at host and port; port 0 takes a free one, `url` says which. Without an
    engine it serves the page and its recordings alone.

    `run()` blocks until a signal ends it, or `should_exit` is set; meanwhile the garbage collector
    leaves out what was there before. OptionError where the address
    cannot be had, before anything is served.
    """

    def __init__(
        self,
        engine: Engine | None,
        config: ServerConfig,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
    ) -> None:
        if loopback(host) and not config.hosts:
            config = replace(config, hosts=(*LOOPBACK, host))
        app = create_page(config) if engine is None else create_app(engine, config)
        self._state = app.state
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                http=patient(config.body_timeout),
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_keep_alive=30,
                proxy_headers=False,
                ws="none",
            )
        )
        self._engine = engine
        self.socket = _bound(host, port)
        _drop_deaf(self.socket, config.body_timeout)
        address = self.socket.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        self.url = f"http://{shown}:{address[1]}"
        if engine is not None and not loopback(host) and not config.api_keys:
            log.warning("open_to_all", extra={"fields": {"host": host, "give": "--api-key"}})

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        fields: dict[str, Any] = {"url": self.url}
        if self._engine is not None:
            fields["cache_limit_bytes"] = self._engine.status().max_memory
        log.info("serving", extra={"fields": fields})
        gc.collect()
        gc.freeze()  # what is there stays: to look through a model's objects holds all threads up
        try:
            super().run(sockets=[self.socket])
        finally:
            gc.unfreeze()
            self.socket.close()
            if self._engine is not None:
                self._engine.close()
            log.info("closed")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Signals end here: they are not raised again when all is done, as uvicorn would."""
        if self.should_exit:
            log.info("ending", extra={"fields": {"signal": sig}})
            os._exit(1)  # the interpreter's own end would wait for threads that are at work
        self.should_exit = True
        self._state.draining = True
        log.info("draining", extra={"fields": {"signal": sig}})


def _drop_deaf(bound: socket.socket, seconds: float) -> None:
    """Connections whose other side takes nothing of what was sent are the system's to drop, where
    it can; some time after `readers.py` gave up, so that it is told in the log."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux; accepted sockets inherit it
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(2000 * seconds))


def _bound(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(2048)
        except OSError:
            bound.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OptionError(
            f"host {host!r}, port {port} cannot be served at: {reason.lower()}"
        ) from None
    return bound
