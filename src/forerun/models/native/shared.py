"""Packed matrices in a file that the processes of a machine map, so that it holds them once.

    shared_matrices(model_file, folder, pack) -> matrices by name, for a `Plan`

The first process packs, writes the file and names it when all is there; others wait for it, and map
what they find, as the first one then does. All map it to read only, and check it by a sum before it
is believed. Its pages are small ones, where memory of one's own has huge ones: reading takes a few
percent longer.

    <source>-<version>.packed      matrices, a table of them (JSON), sum and mark

<source> stands for this machine and the model file's path, <version> for the file's size, age and
samples of what is in it, and for the library's build: a file of another version makes room for the
new one. Who has that mapped keeps it.

What this module does not know: what matrices there are, what they are for.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forerun.models.files import sampled
from forerun.models.native.kernels import Matrix, library

LOCKS = True
try:
    import fcntl
except ModuleNotFoundError:  # Windows
    LOCKS = False

Matrices = Mapping[str, Matrix]

_MARK = b"forerun packed 1"
_END = struct.Struct("<QI16s")  # bytes of the table before it, CRC-32 of all before it, mark
_ALIGNED = 64  # bytes


def shared_matrices(model: Path, folder: Path, pack: Callable[[], Matrices]) -> Matrices | None:
    """Those of a model's file, from its file in `folder`; where there is none, as `pack` makes
    them. None, with a RuntimeWarning that says why, where they cannot be had so."""
    try:
        if LOCKS:
            return _found(model, folder, pack)
        why = "this system has no locks for files"
    except OSError as error:
        why = f"{error.filename or folder}: {error.strerror or error}"
    warnings.warn(f"{model.name}: weights are not shared. {why}", RuntimeWarning, stacklevel=4)
    return None


def _found(model: Path, folder: Path, pack: Callable[[], Matrices]) -> Matrices:
    folder.mkdir(parents=True, exist_ok=True)
    source = _digest(f"{platform.node()} {model.resolve()}")
    with (folder / f"{source}.lock").open("wb") as lock:
        for how in (fcntl.LOCK_SH, fcntl.LOCK_EX):  # together with others that look; then alone
            fcntl.flock(lock, how)
            version = _version(model)
            path = folder / f"{source}-{version}.packed"
            if (matrices := _read(path)) is not None:
                return matrices
        for other in folder.glob(f"{source}-*"):
            other.unlink()
        _write(path, pack())
        if _version(model) != version:
            path.unlink()
            raise OSError(0, "was replaced while it was read", str(model))
        if (matrices := _read(path)) is None:
            raise OSError(0, "does not hold what was written", str(path))
        return matrices


def _version(model: Path) -> str:
    found = model.stat()
    build = library().fr_build().decode()
    return _digest(f"{found.st_size} {found.st_mtime_ns} {sampled(model)} {build}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(path: Path, matrices: Matrices) -> None:
    part = path.with_suffix(".part")
    table, at, crc = [], 0, 0

    def write(data: Any) -> None:
        nonlocal at, crc
        file.write(data)
        at, crc = at + len(data), zlib.crc32(data, crc)

    try:
        with part.open("wb") as file:
            for name, matrix in matrices.items():
                table.append((name, matrix.kind, matrix.rows, matrix.width, at))
                write(
                    memoryview((ctypes.c_char * matrix.size).from_address(matrix.c.data)).cast("B")
                )
                write(bytes(-at % _ALIGNED))
            text = json.dumps(table).encode()
            write(text)
            file.write(_END.pack(len(text), crc, _MARK))
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _read(path: Path) -> Matrices | None:
    """What the file holds; None where it is not there, or is not whole."""
    try:
        whole = np.memmap(path, np.uint8, "r")
        told, crc, mark = _END.unpack(whole[-_END.size :].tobytes())
        before = whole[: -_END.size]
        if mark != _MARK or told > len(before) or zlib.crc32(before.data) != crc:
            return None
        table = json.loads(before[len(before) - told :].tobytes())
    except (FileNotFoundError, ValueError, struct.error):  # an empty one cannot be mapped
        return None
    start = int(whole.ctypes.data)
    return {
        name: Matrix(kind, rows, width, start + at, whole) for name, kind, rows, width, at in table
    }
