"""The log: a JSON object a line. Prompts, answers, and messages that may quote them are left out
unless asked for."""

from __future__ import annotations

import datetime
import json
import logging
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forerun.errors import OptionError

log = logging.getLogger("forerun.server")

Count = Callable[[str, int], None]
"""Told the path and the status of each answer."""


class JsonLines(logging.Formatter):
    """`record.fields` beside the event's name; unless `texts`, tracebacks without the errors' own
    messages, and of other libraries' messages the first line alone: what follows may quote."""

    def __init__(self, *, texts: bool) -> None:
        super().__init__()
        self._texts = texts

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": self._event(record),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            line["traceback"] = (
                self.formatException(record.exc_info) if self._texts else places(error)
            )
        return json.dumps(line)

    def _event(self, record: logging.LogRecord) -> str:
        said = record.getMessage()
        return said if self._texts or record.name.startswith("forerun") else said.partition("\n")[0]


def places(error: BaseException | None) -> str:
    """Where an error was raised, and those behind it, the last first; none of their messages."""
    found, seen = [], set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        found.append(f"{type(error).__name__}\n")
        found += traceback.format_list(traceback.extract_tb(error.__traceback__))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "".join(found)


@contextmanager
def logging_lines(
    path: Path | None = None, *, texts: bool = False, level: int = logging.INFO
) -> Iterator[None]:
    """The server's log, to a file or to standard error. OptionError if it cannot be opened."""
    try:
        handler = logging.StreamHandler(sys.stderr) if path is None else logging.FileHandler(path)
    except OSError as error:
        raise OptionError(
            f"log_file {path} cannot be written: {(error.strerror or str(error)).lower()}"
        ) from None
    handler.setFormatter(JsonLines(texts=texts))
    loggers = [(logging.getLogger(name), least) for name, least in
               (("forerun", level), ("uvicorn", logging.WARNING),
                ("asyncio", logging.WARNING))]  # fmt: skip
    before = [(logger, logger.level, logger.propagate) for logger, _ in loggers]
    for logger, least in loggers:
        logger.addHandler(handler)
        logger.setLevel(least)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, was, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(was)
            logger.propagate = propagate
        handler.close()


class AccessLog:
    """ASGI: a name for each request (`x-request-id`), and a line and a count when it is over."""

    def __init__(self, app: ASGIApp, count: Count, *, texts: bool, paths: Collection[str]) -> None:
        self._app, self._count, self._texts, self._paths = app, count, texts, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        name = uuid.uuid4().hex
        state: dict[str, Any] = scope.setdefault("state", {})
        status = 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", name.encode())]
            await send(message)

        try:
            await self._app(scope, receive, named)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._count(path, status)
            fields: dict[str, Any] = {
                "id": name,
                "method": scope["method"],
                "path": scope["path"][:200],
                "status": status,
                "seconds": round(time.perf_counter() - begun, 4),
            }
            if "tenant" in state:
                fields["key"] = state["tenant"][:8]  # of its digest
            for field in ("tokens", "left", "error", "unknown"):
                if state.get(field):
                    fields[field] = state[field]
            if self._texts:
                fields |= {f: state[f] for f in ("request", "texts") if f in state}
            log.log(logging.DEBUG if scope["path"] == "/health" else logging.INFO,
                    "request", extra={"fields": fields})  # fmt: skip
