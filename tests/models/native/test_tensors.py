"""A file's tensors against those its graph needs; damaged files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forerun.errors import CapabilityError, ModelFileError
from forerun.models.gguf import read_gguf
from forerun.models.native.hyperparameters import read_hyperparameters
from models.native.test_hyperparameters import said
from models.tiny_gguf import write

MISSING = [
    ("llama", "token_embd.weight", "tensor 'token_embd.weight' is missing or not a table"),
    ("llama", "output_norm.weight", "tensor 'output_norm.weight' [64] is missing"),
    ("llama", "blk.1.ffn_down.weight", "tensor 'blk.1.ffn_down.weight' [64, 96] is missing"),
    ("qwen2", "blk.2.attn_k.bias", "tensor 'blk.2.attn_k.bias' [32] is missing"),
    ("qwen3", "blk.2.attn_q_norm.weight", "tensor 'blk.2.attn_q_norm.weight' [32] is missing"),
    ("gemma3", "blk.0.post_ffw_norm.weight",
     "tensor 'blk.0.post_ffw_norm.weight' [64] is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "name", "why"), MISSING)
def test_missing_tensors(architecture, name, why, tmp_path):
    assert said(tmp_path, ModelFileError, architecture, tensors={name: None}) == why


EXTRA = {
    "blk.0.attn_sinks.weight": (4,),
    "blk.1.attn_output.bias": (64,),
    "blk.2.attn_q_norm.weight": (16,),
    "blk.3.attn_norm.weight": (64,),
    "output_norm.bias": (64,),
    "blk.0.attn_q.scale": (1,),
    "rope_factors_long.weight": (8,),
    "token_embd_norm.weight": (64,),
}


@pytest.mark.parametrize("name", EXTRA)
def test_tensors_that_would_be_ignored(name, tmp_path):
    message = said(tmp_path, CapabilityError, tensors={name: EXTRA[name]})
    assert message == (
        f"tensor {name!r} (F32 {list(EXTRA[name])}) has no place in the native backend's llama of "
        "3 layers"
    )


def test_biases_of_a_part_of_the_layers(tmp_path):
    """Of the first layer they would be asked for in all; without there they have no place."""
    assert said(tmp_path, ModelFileError, tensors={"blk.0.attn_q.bias": (64,)}) == (
        "tensor 'blk.0.attn_k.bias' [32] is missing"
    )
    assert "'blk.1.attn_q.bias' (F32 [64]) has no place" in said(
        tmp_path, CapabilityError, tensors={"blk.1.attn_q.bias": (64,)}
    )


def test_shapes(tmp_path):
    for name, shape, right in [
        ("blk.1.ffn_gate.weight", (64, 96), [96, 64]),
        ("blk.1.attn_norm.weight", (32,), [64]),
        ("output_norm.weight", (1, 64), [64]),
        ("output.weight", (24, 64), [23, 64]),
    ]:
        assert said(tmp_path, ModelFileError, tensors={name: shape}) == (
            f"tensor {name!r} (F32) has shape {list(shape)}, but the metadata make it {right}"
        )


def test_types(tmp_path):
    doubles = np.zeros((96, 64))
    message = said(tmp_path, CapabilityError, tensors={"blk.1.ffn_up.weight": doubles})
    assert message == (
        "tensor 'blk.1.ffn_up.weight' (F64): the native backend runs F32, F16, BF16, Q8_0, Q4_0, "
        "Q5_0, Q4_1, Q5_1, Q4_K, Q5_K, Q6_K there; convert the file to one of these"
    )
    message = said(
        tmp_path, CapabilityError, tensors={"output_norm.weight": np.zeros(64, dtype=np.int32)}
    )
    assert message == (
        "tensor 'output_norm.weight' (I32): the native backend runs F32, F16, BF16 there; convert "
        "the file to one of these"
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, bytes, int]:
    """A small file: where to write changed ones, its bytes, and the length of its header."""
    path = tmp_path_factory.mktemp("damaged") / "a.gguf"
    write(path, "gemma3", hidden=32, layers=2, heads=2, kv_heads=1, feed_forward=32, types="Q8_0")
    return path, path.read_bytes(), read_gguf(path).data_offset


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_damaged_header_is_refused_or_read(place, byte, whole):
    path, content, header = whole
    damaged = bytearray(content)
    damaged[int(place * header)] = byte
    path.write_bytes(damaged)
    with contextlib.suppress(ModelFileError, CapabilityError):
        read_hyperparameters(read_gguf(path))


@given(place=st.floats(0, 1, exclude_max=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_cut_file_is_refused(place, whole):
    path, content, _ = whole
    path.write_bytes(content[: int(place * len(content.rstrip(b"\0")))])
    with pytest.raises(ModelFileError, match="incomplete"):
        read_hyperparameters(read_gguf(path))
