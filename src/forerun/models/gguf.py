"""Reading GGUF files: their header, every number of it checked before it is used.

    file = read_gguf("model.gguf")
    file.metadata["general.architecture"], file.tensors["output.weight"].shape

A GGUF file is a header (metadata, then one record for each tensor) and, from the next multiple of
`general.alignment`, the tensors' bytes. Versions 2 and 3, little-endian. Whatever is wrong with a
file is a ModelFileError that says what was being read at which byte: no count is believed before
the file is known to be long enough for it, so a corrupt one costs neither a crash nor memory.

This module does not know what the metadata mean, and decodes no tensor.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from forerun.errors import ModelFileError

# Kinds of metadata values, by their number in the file: struct letter (strings and arrays apart).
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_DEEPEST_ARRAY = 4  # arrays of arrays of ...; files in the wild have one level

TENSOR_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2), 28: ("F64", 1, 8),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8),
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 29: ("IQ1_M", 256, 56), 34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
"""Tensor types by their number in the file: name, values in a block, bytes of a block."""


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """Where one tensor's bytes lie in the file, and what they are."""

    name: str
    shape: tuple[int, ...]  # as NumPy and torch write it: the last axis is contiguous
    type: str  # "F32", "Q4_1", ...
    offset: int  # of the first byte, from the beginning of the file
    size: int  # bytes


@dataclass(frozen=True, kw_only=True)
class GGUFFile:
    """A file's header. `data` fetches tensors, so an open header costs no memory for weights."""

    path: Path
    version: int
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]  # in the file's order
    data_offset: int

    def data(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The tensor's bytes as they lie in the file: a read-only view, mapped, not read."""
        tensor = self.tensors[name]
        if tensor.size == 0:
            return np.empty(0, dtype=np.uint8)
        return np.memmap(self.path, np.uint8, "r", tensor.offset, shape=(tensor.size,))


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """The header of a GGUF file. ModelFileError if it cannot be one, or the file is too short."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            if length < 24:
                raise ModelFileError(
                    f"{path}: {length} bytes are too few for a GGUF file; it may be incomplete"
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                return _Header(path, buffer, length).read()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error


class _Header:
    """A cursor over the file; every step forward is checked against the file's length."""

    def __init__(self, path: Path, buffer: mmap.mmap, length: int) -> None:
        self.path, self.buffer, self.length = path, buffer, length
        self.at = 0
        self.what = "the header"  # what is being read, for messages

    def read(self) -> GGUFFile:
        version = self._version()
        tensor_count, key_count = self._number("Q"), self._number("Q")
        self._room(tensor_count, 24, "tensors")
        self._room(key_count, 13, "metadata entries")
        metadata: dict[str, Any] = {}
        for i in range(key_count):
            self.what = f"the name of metadata entry {i + 1} of {key_count}"
            key = self._string()
            if key in metadata:
                self._fail(f"{key!r} comes twice")
            self.what = f"the value of {key!r}"
            metadata[key] = self._value(self._number("I"), 0)
        tensors: dict[str, TensorInfo] = {}
        for i in range(tensor_count):
            self.what = f"the record of tensor {i + 1} of {tensor_count}"
            tensor = self._tensor()
            if tensor.name in tensors:
                self._fail(f"{tensor.name!r} comes twice")
            tensors[tensor.name] = tensor
        start = self._data_start(metadata.get("general.alignment", 32))
        return GGUFFile(
            path=self.path,
            version=version,
            metadata=metadata,
            tensors={name: self._placed(tensor, start) for name, tensor in tensors.items()},
            data_offset=start,
        )

    def _version(self) -> int:
        magic = self._take(4)
        if magic != b"GGUF":
            raise ModelFileError(f"{self.path}: not a GGUF file: it begins with {magic!r}")
        version: int = self._number("I")
        if version in (2, 3):
            return version
        if version and version & 0xFFFF == 0:
            raise ModelFileError(
                f"{self.path}: it is big-endian; only little-endian files can be read"
            )
        raise ModelFileError(
            f"{self.path}: GGUF version {version} is unknown; versions 2 and 3 can be read"
        )

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            self._fail(f"there is no kind of value {kind} in GGUF")
        if depth >= _DEEPEST_ARRAY:
            self._fail(f"arrays are nested more than {_DEEPEST_ARRAY} deep")
        item, count = self._number("I"), self._number("Q")
        if item == _STRING:
            self._room(count, 8, "strings")
            return self._strings(count)
        if item in _SCALARS:
            letter = _SCALARS[item]
            self._room(count, struct.calcsize(letter), "numbers")
            raw = self._take(count * struct.calcsize(letter))
            return list(struct.unpack(f"<{count}{letter}", raw))
        self._room(count, 12, "arrays")
        return [self._value(item, depth + 1) for _ in range(count)]

    def _strings(self, count: int) -> list[str]:
        """`count` strings in a row: a vocabulary has some 100,000, so the loop is kept tight."""
        unpack, buffer, end, at = struct.Struct("<Q").unpack_from, self.buffer, self.length, self.at
        strings: list[str] = []
        for _ in range(count):
            if at + 8 > end:
                break
            start = at + 8
            at = start + unpack(buffer, at)[0]
            if at > end:
                break
            try:
                strings.append(buffer[start:at].decode())
            except UnicodeDecodeError:
                self.at = start
                self._fail(f"string {len(strings)} is not UTF-8")
        else:
            self.at = at
            return strings
        self._fail(f"the file ends within string {len(strings)} of {count}")

    def _tensor(self) -> TensorInfo:
        """One record; its offset still counts from where the data begin."""
        name = self._string()
        self.what = f"the record of tensor {name!r}"
        axes = self._number("I")
        if axes > 8:
            self._fail(f"{axes} axes are too many")
        shape = tuple(self._number("Q") for _ in range(axes))
        kind, offset = self._number("I"), self._number("Q")
        if kind not in TENSOR_TYPES:
            known = ", ".join(sorted(name for name, _, _ in TENSOR_TYPES.values()))
            self._fail(f"tensor type {kind} is unknown. Known: {known}")
        type_, block, block_bytes = TENSOR_TYPES[kind]
        row = shape[0] if shape else 1
        if row % block:
            self._fail(f"rows of {row} values are no whole blocks of {block}, which {type_} needs")
        values = 1
        for axis in shape:
            values *= axis
        return TensorInfo(
            name=name,
            shape=shape[::-1],
            type=type_,
            offset=offset,
            size=values // block * block_bytes,
        )

    def _data_start(self, alignment: Any) -> int:
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            self._fail(f"general.alignment must be a power of two, not {alignment!r}")
        self.alignment = alignment
        return (self.at + alignment - 1) // alignment * alignment

    def _placed(self, tensor: TensorInfo, start: int) -> TensorInfo:
        first, last = start + tensor.offset, start + tensor.offset + tensor.size
        if tensor.offset % self.alignment:
            raise ModelFileError(
                f"{self.path}: tensor {tensor.name!r} ({tensor.type}) begins at byte {first}, "
                f"which is not a multiple of {self.alignment} from where the data begin"
            )
        if last > self.length:
            raise ModelFileError(
                f"{self.path}: tensor {tensor.name!r} ({tensor.type}, {list(tensor.shape)}) should "
                f"lie at bytes {first} to {last}, but the file ends at {self.length}; "
                "it may be incomplete: fetch it again"
            )
        return TensorInfo(
            name=tensor.name, shape=tensor.shape, type=tensor.type, offset=first, size=tensor.size
        )

    def _take(self, count: int) -> bytes:
        if count > self.length - self.at:
            self._fail(f"{count} bytes are wanted and {self.length - self.at} are left")
        self.at += count
        return self.buffer[self.at - count : self.at]

    def _number(self, letter: str) -> Any:
        return struct.unpack("<" + letter, self._take(struct.calcsize("<" + letter)))[0]

    def _string(self) -> str:
        raw = self._take(self._number("Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self._fail("it is not UTF-8")

    def _room(self, count: int, least: int, items: str) -> None:
        """Refuse a count of things that cannot all be in what is left of the file."""
        if count * least > self.length - self.at:
            self._fail(f"{count} {items} do not fit in the {self.length - self.at} bytes left")

    def _fail(self, why: str) -> NoReturn:
        raise ModelFileError(
            f"{self.path}: cannot read {self.what} at byte {self.at} of {self.length}: {why}; "
            "the file may be incomplete or damaged"
        )
