"""The input: JSON lines, known by number, read from disk when their turn comes.

A first reading gives what must be known before the first answer: how many lines there are and where
they begin, what the file holds (its digest), and which `custom_id` comes twice. It keeps 24 bytes a
line. What cannot be read twice, as a pipe, is copied to a temporary file first.

What this module does not know: what a line means, beyond its `custom_id`.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from forerun.errors import OptionError, SourceChangedError

LONGEST = 64 << 20  # bytes of a line; of a longer one nothing but the beginning is read


class Source:
    """Lines of a file that are not blank. `path` None: standard input.

    digest   SHA-256 of all its bytes
    numbers  of the lines that are not blank, counted from 1 as editors do

    OptionError where it cannot be read. SourceChangedError where it changes while it is used.
    """

    def __init__(self, path: Path | None) -> None:
        self.name = "standard input" if path is None else str(path)
        self._file = _opened(path)
        self.numbers: array[int] = array("Q")
        self._offsets: array[int] = array("Q")
        self._ids: array[int] = array("Q")  # digests of custom_ids; 0: none
        self.digest = self._read_through()
        self._state = self._stat()
        self._twice = self._repeated()

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def last(self) -> int:
        """The highest number of a line; 0: there is none."""
        return self.numbers[-1] if self.numbers else 0

    def order(self, limit: int | None = None, shuffle: int | None = None) -> Iterator[int]:
        """Positions in `numbers`: all, or `limit` of them, in the file's order or one by a seed."""
        count = len(self) if limit is None else min(limit, len(self))
        if shuffle is None:
            return iter(range(count))
        shuffled = np.random.Generator(np.random.Philox(shuffle)).permutation(len(self))
        return (int(position) for position in shuffled[:count])

    def read(self, position: int) -> bytes:
        """A line, without its end; LONGEST + 1 bytes of one that is longer."""
        if self._stat() != self._state:
            raise SourceChangedError(
                f"{self.name} was changed while it was read: answers that are there belong to what "
                "it was. Put it back and go on, or give another output"
            )
        self._file.seek(self._offsets[position])
        return self._file.readline(LONGEST + 1).rstrip(b"\r\n")

    def used_before(self, position: int) -> int | None:
        """The number of an earlier line with the same custom_id."""
        first = self._twice.get(self._ids[position])
        if first is None or first >= position:
            return None
        same = _custom_id(self.read(first)) == _custom_id(self.read(position))
        return self.numbers[first] if same else None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ the first reading

    def _read_through(self) -> str:
        digest, offset, number = hashlib.sha256(), 0, 0
        while line := self._file.readline(LONGEST + 1):
            number += 1
            start, beginning = offset, line
            while line and not line.endswith(b"\n"):  # the rest of a long one, or the file's end
                digest.update(line)
                offset += len(line)
                line = self._file.readline(LONGEST + 1)
            digest.update(line)
            offset += len(line)
            if beginning.strip():
                self.numbers.append(number)
                self._offsets.append(start)
                self._ids.append(_short_digest(_custom_id(beginning)))
        return digest.hexdigest()

    def _repeated(self) -> dict[int, int]:
        """Digests that come more than once, and where first."""
        ids = np.frombuffer(self._ids, np.uint64) if self._ids else np.empty(0, np.uint64)
        ordered = np.sort(ids[ids != 0])
        again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        first: dict[int, int] = {}
        for position in np.flatnonzero(np.isin(ids, again)) if len(again) else ():
            first.setdefault(int(ids[position]), int(position))
        return first

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns


def _opened(path: Path | None) -> IO[bytes]:
    if path is None:
        return _copied(sys.stdin.buffer)
    try:
        file = path.open("rb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"FILE {path} cannot be read: {reason}") from None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    with file:
        return _copied(file)


def _copied(pipe: IO[bytes]) -> IO[bytes]:
    copy = tempfile.TemporaryFile()  # noqa: SIM115  (the caller's to close)
    while part := pipe.read(1 << 20):
        copy.write(part)
    copy.seek(0)
    return copy


def _custom_id(line: bytes) -> Any:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found.get("custom_id") if isinstance(found, dict) else None


def _short_digest(custom_id: Any) -> int:
    """64 bits, so that equal ones are found; whether two are equal is looked up in the file."""
    if not isinstance(custom_id, str):
        return 0
    raw = custom_id.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little") or 1
