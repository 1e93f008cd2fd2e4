"""The log: to standard error with -v, and to a file with --log-file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forerun.cli.screen import Screen
from forerun.errors import OptionError


@contextmanager
def logging_to(verbose: int, path: Path | None) -> Iterator[None]:
    """OptionError if the file cannot be opened. Handlers are taken off again at the end."""
    logger = logging.getLogger("forerun")
    handlers: list[logging.Handler] = []
    if verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[-1].setFormatter(logging.Formatter("forerun: %(message)s"))
    if path is not None:
        try:
            handlers.append(LogFile(path))
        except OSError as error:
            raise OptionError(
                f"--log-file {path} cannot be written: {_reason(error)}; "
                "give a file in a folder that exists"
            ) from None
        handlers[-1].setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    if handlers:
        logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    for handler in handlers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        logger.setLevel(before)
        for handler in handlers:
            logger.removeHandler(handler)
            with suppress(OSError):  # what could not be written was said, or nobody reads it
                handler.close()


class LogFile(logging.FileHandler):
    """A log that ends, with a word to the user, where its file cannot be written any more."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self._path = path
        self._ended = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._ended:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._ended = True
        Screen().error(f"--log-file {self._path}: {_reason(error)}; the log ends here")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
