"""Reading GGUF headers: what is written is read, and anything else is a ModelFileError."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forerun.errors import ModelFileError
from forerun.models.gguf import TENSOR_TYPES, read_gguf


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def array(kind: int, count: int, content: bytes) -> bytes:
    return struct.pack("<IIQ", 9, kind, count) + content


def u32(value: int) -> bytes:
    return struct.pack("<II", 4, value)


def entry(key: str, value: bytes) -> bytes:
    return string(key) + value


def tensor(name: str, shape: list[int], kind: int, offset: int) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return string(name) + axes + struct.pack("<IQ", kind, offset)


def gguf(
    entries: list[bytes], tensors: list[bytes] | None = None, data: bytes = b"", version: int = 3
) -> bytes:
    tensors = tensors or []
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    header += b"".join(entries) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + data


EVERY_KIND = [
    entry("u8", struct.pack("<IB", 0, 200)),
    entry("i8", struct.pack("<Ib", 1, -5)),
    entry("u16", struct.pack("<IH", 2, 60000)),
    entry("i16", struct.pack("<Ih", 3, -300)),
    entry("u32", u32(7)),
    entry("i32", struct.pack("<Ii", 5, -7)),
    entry("f32", struct.pack("<If", 6, 0.5)),
    entry("bool", struct.pack("<I?", 7, True)),
    entry("string", struct.pack("<I", 8) + string("grüezi")),
    entry("u64", struct.pack("<IQ", 10, 2**63)),
    entry("i64", struct.pack("<Iq", 11, -(2**62))),
    entry("f64", struct.pack("<Id", 12, 0.1)),
    entry("strings", array(8, 3, string("a") + string("") + string("日本"))),
    entry("ints", array(5, 2, struct.pack("<2i", 1, -1))),
    entry("nested", array(9, 1, array(0, 2, b"\x01\x02")[4:])),
]
VALUES = {
    "u8": 200, "i8": -5, "u16": 60000, "i16": -300, "u32": 7, "i32": -7, "f32": 0.5, "bool": True,
    "string": "grüezi", "u64": 2**63, "i64": -(2**62), "f64": 0.1, "strings": ["a", "", "日本"],
    "ints": [1, -1], "nested": [[1, 2]],
}  # fmt: skip
WEIGHTS = np.arange(12, dtype=np.float32)
FILE = gguf(
    EVERY_KIND,
    [tensor("a", [4, 3], 0, 0), tensor("b", [32], 3, 64)],
    WEIGHTS.tobytes() + bytes(16) + bytes(range(20)),
)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def put(content: bytes) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return path

    return put


def refused(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        read_gguf(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("version", [2, 3])
def test_all_kinds_of_values(write: Any, version: int) -> None:
    file = read_gguf(write(gguf(EVERY_KIND, version=version)))
    assert (file.version, file.metadata, file.tensors) == (version, VALUES, {})


def test_tensors_and_their_bytes(write: Any) -> None:
    file = read_gguf(write(FILE))
    assert list(file.tensors) == ["a", "b"]
    a, b = file.tensors["a"], file.tensors["b"]
    assert (a.shape, a.type, a.size, a.offset) == ((3, 4), "F32", 48, file.data_offset)
    assert (b.shape, b.type, b.size, b.offset) == ((32,), "Q4_1", 20, file.data_offset + 64)
    assert np.array_equal(file.data("a").view(np.float32).reshape(a.shape), WEIGHTS.reshape(3, 4))
    assert file.data("b").tobytes() == bytes(range(20))


def test_alignment_is_the_files_own(write: Any) -> None:
    header = gguf([entry("general.alignment", u32(64))], [tensor("a", [4], 0, 0)])
    content = header + bytes(-len(header) % 64) + bytes(16)
    assert read_gguf(write(content)).data_offset % 64 == 0


def test_an_empty_tensor(write: Any) -> None:
    assert read_gguf(write(gguf([], [tensor("a", [0], 0, 0)]))).data("a").size == 0


def test_block_sizes_are_the_gguf_librarys() -> None:
    sizes = pytest.importorskip("gguf").GGML_QUANT_SIZES
    for kind, block in sizes.items():
        if int(kind) in TENSOR_TYPES and kind.name != "Q8_1":  # there the library is out of date
            assert TENSOR_TYPES[int(kind)] == (kind.name, *block)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are too few for a GGUF file"),
        (b"PK\x03\x04" + bytes(40), "not a GGUF file"),
        (gguf([], version=0), "GGUF version 0 is unknown; versions 2 and 3 can be read$"),
        (gguf([], version=4), "GGUF version 4 is unknown; versions 2 and 3 can be read$"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian; only little-endian .* read$"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "9223372036854775808 tensors do not fit"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "metadata entries do not fit"),
        (gguf([entry("k", array(8, 2**60, b""))]), "value of 'k'.* strings do not fit"),
        (gguf([entry("k", array(0, 2**40, b""))]), "numbers do not fit"),
        (gguf([entry("k", array(9, 2**40, b""))]), "arrays do not fit"),
        (gguf([entry("k", array(8, 2, string("a") + struct.pack("<Q", 2**62)))]), "string 1 of 2"),
        (gguf([entry("k", array(8, 1, string(b"\xff")))]), "string 0 is not UTF-8"),
        (gguf([entry("k", struct.pack("<I", 8) + string(b"\xff"))]), "'k'.* not UTF-8"),
        (gguf([entry("k", struct.pack("<IQ", 8, 2**62))]), "bytes are wanted"),
        (gguf([entry("k", struct.pack("<I", 13))]), "no kind of value 13"),
        (gguf([entry("k", u32(1)), entry("k", u32(1))]), "'k' comes twice"),
        (gguf([entry("k", array(9, 1, array(9, 1, array(9, 1, array(9, 1, array(
            9, 1, b"")[4:])[4:])[4:])[4:]))]), "nested more than 4 deep"),
        (gguf([entry("general.alignment", u32(48))]), "alignment must be a power of two, not 48"),
        (gguf([], [tensor("w", [4], 99, 0)]), "tensor 'w'.*type 99 is unknown. Known: BF16"),
        (gguf([], [tensor("w", [33], 2, 0)]), "rows of 33 values .* blocks of 32, which Q4_0"),
        (gguf([], [tensor("w", [1] * 9, 0, 0)]), "9 axes are too many"),
        (gguf([], [tensor("w", [4], 0, 4)], bytes(64)), "'w' .F32. begins .* not a multiple of 32"),
        (gguf([], [tensor("w", [4], 0, 0)] * 2, bytes(64)), "'w' comes twice"),
        (gguf([], [tensor("w", [4, 2], 1, 0)], bytes(15)), r"'w' \(F16, \[2, 4\]\) .* incomplete"),
        (gguf([], [tensor("w", [2**40, 2**40], 0, 0)], bytes(64)), "'w' .* the file ends at"),
    ],
)  # fmt: skip
def test_what_is_refused(write: Any, content: bytes, message: str) -> None:
    path = write(content)
    with pytest.raises(ModelFileError, match=message):
        read_gguf(path)
    refused(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.gguf")
    assert "cannot be read" in refused(tmp_path)


def test_every_truncation_is_an_error(write: Any) -> None:
    for length in range(len(FILE)):
        assert "incomplete" in refused(write(FILE[:length]))


@given(st.binary(max_size=300), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_noise_only_ever_raises_model_file_error(write: Any, noise: bytes, magic: bool) -> None:
    path = write(b"GGUF\x03\x00\x00\x00" + noise if magic else noise)
    with contextlib.suppress(ModelFileError):
        read_gguf(path)


@given(st.lists(st.tuples(st.integers(0, len(FILE) - 1), st.integers(0, 255)), max_size=6))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_headers_only_ever_raise_model_file_error(
    write: Any, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(FILE)
    for at, value in changes:
        content[at] = value
    path = write(bytes(content))
    with contextlib.suppress(ModelFileError):
        file = read_gguf(path)
        for name in file.tensors:
            assert file.data(name).size == file.tensors[name].size


@pytest.mark.model
def test_smollm2(smollm2_path: Path) -> None:
    file = read_gguf(smollm2_path)
    assert file.metadata["llama.block_count"] == 30
    assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152
    assert file.tensors["token_embd.weight"].shape == (49152, 576)
    last = max(tensor.offset + tensor.size for tensor in file.tensors.values())
    assert last == smollm2_path.stat().st_size
