"""The log: to standard error with -v, and to a file with --log-file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forerun.errors import OptionError


@contextmanager
def logging_to(verbose: int, path: Path | None) -> Iterator[None]:
    """OptionError if the file cannot be written. Handlers are taken off again at the end."""
    logger = logging.getLogger("forerun")
    handlers: list[logging.Handler] = []
    if verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[-1].setFormatter(logging.Formatter("forerun: %(message)s"))
    if path is not None:
        try:
            handlers.append(logging.FileHandler(path, encoding="utf-8"))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OptionError(
                f"--log-file {path} cannot be written: {reason}; "
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
            handler.close()
