"""The output: records that are whole, one a line, and which lines of the input have theirs.

A record is written at once, behind the last; nothing is ever changed. So a process that dies leaves
whole records and at most one torn at the end, which the next start cuts off: its line is done
again. What the machine's own death can take are the records of the last second (`fsync` comes once
in a second, and at the end), and what it may leave of them is cut off too.

Each record begins with {"id":"batch_req_<run>_<line>". An output whose records bear another run's
name, or that holds anything else, is refused and left as it is.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forerun.batch.identity import Identity
from forerun.errors import OptionError

SYNC = 1.0  # seconds between two calls of fsync

_HEAD = re.compile(rb'\{"id":"batch_req_([0-9a-f]{16})_([0-9a-f]{16})_(\d+)",')


def record_id(run: Identity, number: int) -> str:
    """The name of a line's record."""
    return f"batch_req_{run}_{number}"


class Output:
    """Records of `run` in a file, for lines with numbers up to `last`. `path` None: standard
    output, which cannot be gone on with.

    done      by number: whether the line has its record
    found     records that were there
    failed    of these, errors
    dropped   bytes of a torn record that were cut off
    resumes   whether another start can go on with it
    makers    system_fingerprints of the answers that were there

    OptionError for a file that cannot be written, is in use, or is another run's.
    """

    def __init__(
        self,
        path: Path | None,
        run: Identity,
        last: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = "standard output" if path is None else str(path)
        self._run, self._clock = run, clock
        self.done = bytearray(last + 1)
        self.found = self.failed = self.dropped = 0
        self.makers: set[str] = set()
        self.resumes = path is not None
        self._synced, self._unsynced = clock(), False
        if path is None:
            sys.stdout.flush()
            self._file = sys.stdout.fileno()
            return
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OptionError(
                f"--out {path} cannot be written: {reason}; give a file in a folder that exists"
            ) from None
        try:
            self._lock()
            self._look()
        except BaseException:
            os.close(self._file)
            raise

    def write(self, number: int, record: bytes) -> None:
        """A line's record, with its end of line. OSError where the disk is full."""
        assert record.endswith(b"\n")
        assert not self.done[number], number
        data = memoryview(record)
        while data:
            data = data[os.write(self._file, data) :]
        self.done[number] = 1
        self._unsynced = True
        self.sync()

    def sync(self, *, now: bool = False) -> None:
        """Have the disk keep what was written, if the last time is a second ago."""
        if not self.resumes or not self._unsynced:
            return
        if now or self._clock() - self._synced >= SYNC:
            os.fsync(self._file)
            self._synced, self._unsynced = self._clock(), False

    def close(self) -> None:
        if self.resumes:
            self.sync(now=True)
            os.close(self._file)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ what is there

    def _lock(self) -> None:
        """Two processes must not write the same records. The lock goes with its process."""
        try:
            import fcntl
        except ModuleNotFoundError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(
                f"--out {self.name} is being written by another run: wait for it, or give another "
                "file"
            ) from None
        except OSError:  # a file system without locks
            return

    def _look(self) -> None:
        """Note what is done; cut off what is torn. Nothing is changed where it is refused."""
        end = 0  # of the last whole record
        torn: bytes | None = None  # what comes behind it, and is no record
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise OptionError(f"--out {self.name} is no file: give one, or - for standard output")
        with os.fdopen(os.dup(self._file), "rb") as file:
            for line in file:
                if torn is None and self._note(line):
                    end += len(line)
                elif torn is None:
                    torn = line
                elif line.strip(b"\0\r\n"):
                    raise self._foreign(torn)
        if torn is not None:
            if not self._may_be_torn(torn):
                raise self._foreign(torn)
            size = os.fstat(self._file).st_size
            self.dropped = size - end
            os.ftruncate(self._file, end)

    def _note(self, line: bytes) -> bool:
        """Whether it is a whole record. OptionError for another run's."""
        head = _HEAD.match(line)
        if head is None or not line.endswith(b"\n"):
            return False
        self._check_run(head[1].decode(), head[2].decode())
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:
            return False
        number = int(head[3])
        if not 0 < number < len(self.done):
            raise OptionError(
                f"--out {self.name} has a record of line {number}, which is not there"
            )
        if self.done[number]:
            raise OptionError(
                f"--out {self.name} has two records of line {number}: take one of them out"
            )
        self.done[number] = 1
        self.found += 1
        response = record.get("response") or {}
        body = response.get("body") or {}
        self.failed += failed(record)
        if "system_fingerprint" in body:
            self.makers.add(body["system_fingerprint"])
        return True

    def _check_run(self, input: str, options: str) -> None:
        if input != self._run.input:
            raise OptionError(
                f"--out {self.name} holds answers to another input: give another file, or the "
                "input that it was made from, unchanged"
            )
        if options != self._run.options:
            raise OptionError(
                f"--out {self.name} holds answers that were made with other options (model, "
                "drafting, seed, most tokens): give the same ones, or another file"
            )

    def _may_be_torn(self, line: bytes) -> bool:
        """Whether it is what a death can leave of a record of this run: its beginning, or nothing
        but zeros."""
        written = line.rstrip(b"\r\n").rstrip(b"\0")
        start = f'{{"id":"batch_req_{self._run}_'.encode()
        return written.startswith(start) or start.startswith(written)

    def _foreign(self, line: bytes) -> OptionError:
        said = line[:40].decode(errors="replace").rstrip()
        return OptionError(
            f"--out {self.name} holds something else than records of forerun run: {said!r}…; "
            "give another file"
        )


def failed(record: dict[str, Any]) -> bool:
    """Whether a record is of an error."""
    response = record.get("response")
    return response is None or response.get("status_code") != 200
