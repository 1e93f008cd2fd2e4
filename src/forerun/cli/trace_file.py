"""A file of trace records, one JSON object a line; only whole lines, as they happen.

The path is tried when the file is made, long before the first round. What it held goes when the
first record comes; a file that did not exist and got no record is removed again.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from forerun.errors import OptionError
from forerun.trace import Round


class TraceFile:
    """Open for writing, or OptionError. `path` None: records go nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._written = False
        if path is None:
            return
        self._new = not path.exists()
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OptionError(
                f"--trace {path} cannot be written: {reason}; give a file in a folder that exists"
            ) from None

    def write(self, record: Round, request: int) -> None:
        """`request` counts the answers of this run."""
        if self._path is None:
            return
        if not self._written and self._path.is_file():
            os.truncate(self._file, 0)
        self._written = True
        line = dataclasses.replace(record, request=request).to_json() + "\n"
        data = line.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self._file, data) :]

    def __enter__(self) -> TraceFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._path is None:
            return
        os.close(self._file)
        if self._new and not self._written and self._path.is_file():
            self._path.unlink()
