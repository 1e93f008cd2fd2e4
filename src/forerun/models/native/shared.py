"""Packed matrices in a file that the processes of a machine map, so that it holds them once.

    with shared_arena(model_file, folder) as arena:   make every matrix;   arena.seal()

The first process packs into the file and names it when all is there; others wait for it, and map
what they find. It is read only from then on, and checked by a sum before it is believed. Its pages
are small ones, where memory of one's own has huge ones: reading takes a few percent longer.

    <source>-<version>.packed      pieces of an `Arena`, one behind the other; sum; mark

<source> stands for the model file's path, <version> for what it was and for the library's build: a
file of another version makes room for the new one. Who has it mapped keeps it.

What this module does not know: what matrices there are, and in which order. That must be the same
in all processes; it is, for plans of the same file.
"""

from __future__ import annotations

import hashlib
import os
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from forerun import clib
from forerun.models.native.kernels import Arena
from forerun.models.native.plan import Plan

_MARK = b"forerun packed 1"
_END = struct.Struct("<QI16s")  # bytes before it, their CRC-32, mark
_AT_ONCE = 16 << 20


class SharedArena(Arena):
    """Takes memory of the file at `path`, which is there already or is made now.

    `ready` says which: what would be packed into it is there. OSError where the file cannot be
    written or the disk has no room for it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path, self._part = path, path.with_suffix(".part")
        self._pieces: list[Any] = []
        self._end = 0  # of the pieces so far
        found = _mapped(path)
        self.ready = found is not None
        if found is not None:
            self._pieces = [found]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("w+b")

    def _more(self, size: int) -> int:
        start, self._end = self._end, self._end + size
        if self.ready:
            whole = self._pieces[0]
            assert self._end <= len(whole), "plans of one file take the same memory"
            return int(whole.ctypes.data) + start
        self._file.seek(start)
        self._file.write(bytes(size))  # a full disk is told of here, not when it is packed
        self._file.flush()
        piece = np.memmap(self._file, np.uint8, "r+", offset=start, shape=(size,))
        self._pieces.append(piece)
        return int(piece.ctypes.data)

    def seal(self) -> Arena:
        if not self.ready:
            self._finish()
        return Arena()

    def _finish(self) -> None:
        crc = 0
        for piece in self._pieces:
            piece.flush()
            crc = _sum(piece, crc)
        with self._file as file:
            file.seek(self._end)
            file.write(_END.pack(self._end, crc, _MARK))
            file.flush()
            os.fsync(file.fileno())
        self._part.replace(self._path)

    def close(self) -> None:
        """Leave nothing half made; what was taken stays."""
        if not self.ready:
            self._file.close()
            self._part.unlink(missing_ok=True)


@contextmanager
def shared_arena(model: Path, folder: Path) -> Iterator[SharedArena]:
    """One in `folder` for the packed copy of a model's file, of which one process at a time makes
    or looks. OSError where that cannot be had."""
    import fcntl

    source, version = _names(model)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{source}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = folder / f"{source}-{version}.packed"
        for other in folder.glob(f"{source}-*"):
            if other != path:
                other.unlink(missing_ok=True)
        arena = SharedArena(path)
        try:
            yield arena
        finally:
            arena.close()


def sharing(make: Callable[..., Plan], model: Path, folder: Path) -> Plan:
    """`make(arena=…)` with one that is shared, or `make()` where none can be had; said by a
    RuntimeWarning."""
    try:
        with shared_arena(model, folder) as arena:
            return make(arena=arena)
    except ModuleNotFoundError:
        why = "this system has no locks for files"
    except OSError as error:
        why = f"{error.filename or folder}: {error.strerror or error}"
    warnings.warn(f"{model.name}: weights are not shared. {why}", RuntimeWarning, stacklevel=4)
    return make()


def _names(model: Path) -> tuple[str, str]:
    where, found = model.resolve(), model.stat()
    build = hashlib.sha256(clib.PLACE.read_bytes()).hexdigest()
    version = f"{found.st_size} {found.st_mtime_ns} {build} {Arena.PIECE}"
    return _digest(str(where)), _digest(version)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _mapped(path: Path) -> Any:
    """The pieces, if the file is whole; else None, and it is gone."""
    try:
        size = path.stat().st_size - _END.size
        with path.open("rb") as file:
            file.seek(max(size, 0))
            told, crc, mark = _END.unpack(file.read())
        if (told, mark) != (size, _MARK):
            raise ValueError("another form")
        pieces = np.memmap(path, np.uint8, "r", shape=(size,))
        if _sum(pieces, 0) != crc:
            raise ValueError("damaged")
    except FileNotFoundError:
        return None
    except (ValueError, struct.error):
        path.unlink(missing_ok=True)
        return None
    return pieces


def _sum(piece: Any, crc: int) -> int:
    for start in range(0, len(piece), _AT_ONCE):
        crc = zlib.crc32(piece[start : start + _AT_ONCE], crc)
    return crc
