"""Numbers read from metadata, and the message of every refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forerun.errors import CapabilityError, ForerunError, ModelFileError
from forerun.models.gguf import read_gguf
from forerun.models.native.graph import Hyperparameters, Rotation
from forerun.models.native.hyperparameters import read_hyperparameters
from models.tiny_gguf import write


def numbers(path: Path, architecture: str = "llama", **options: Any) -> Hyperparameters:
    return read_hyperparameters(read_gguf(write(path / "a.gguf", architecture, **options)))


def said(path: Path, kind: type[ForerunError], architecture: str = "llama", **options: Any) -> str:
    """The message, without the file's name at its beginning."""
    with pytest.raises(kind) as caught:
        numbers(path, architecture, **options)
    start = f"{path / 'a.gguf'}: "
    assert type(caught.value) is kind
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


def test_llama(tmp_path):
    assert numbers(tmp_path, tied=False) == Hyperparameters(
        architecture="llama", layers=3, hidden=64, heads=4, kv_heads=2, head_width=16,
        feed_forward=96, vocabulary=23, context=128, epsilon=np.float32(1e-5).item(),
        rotation=Rotation(base=500.0, width=16, interleaved=True), attention_scale=0.25,
    )  # fmt: skip


def test_qwen2_and_3(tmp_path):
    h = numbers(tmp_path, "qwen2")
    assert (h.tied, h.qkv_bias, h.head_width) == (True, True, 16)
    assert h.rotation == Rotation(base=500.0, width=16)
    h = numbers(tmp_path, "qwen3")
    assert (h.qkv_bias, h.head_width, h.attention_scale) == (False, 32, 32**-0.5)


def test_gemma3(tmp_path):
    h = numbers(tmp_path, "gemma3")
    assert (h.window, h.period) == (5, 6)
    assert h.rotation == Rotation(base=500.0, width=32)
    assert h.local_rotation == Rotation(base=10_000.0, width=32)
    h = numbers(
        tmp_path,
        "gemma3",
        period=2,
        metadata={
            "rope.freq_base_swa": 40.0, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0,
        },
    )  # fmt: skip
    assert h.period == 2
    assert h.rotation == Rotation(base=500.0, width=32, scale=8.0)
    assert h.local_rotation == Rotation(base=40.0, width=32)
    h = numbers(tmp_path, "gemma3", window=0)
    assert (h.window, h.local_rotation) == (None, None)


def test_the_27b_scales_attention_by_its_hidden_width(tmp_path):
    h = numbers(tmp_path, "gemma3", layers=62, hidden=32, heads=2, kv_heads=1, feed_forward=32)
    assert h.attention_scale == 16**-0.5
    h = numbers(tmp_path, "gemma3", layers=61, hidden=32, heads=2, kv_heads=1, feed_forward=32)
    assert h.attention_scale == 32**-0.5


def test_a_window_in_a_llama_file_is_every_layers(tmp_path):
    h = numbers(tmp_path, window=6)
    assert (h.window, h.period, h.local_rotation) == (6, 4, h.rotation)


def test_a_list_of_local_layers(tmp_path):
    key = "attention.sliding_window_pattern"
    h = numbers(tmp_path, "gemma3", layers=4, metadata={key: [True, False, True, False]})
    assert h.period == 2
    h = numbers(tmp_path, "gemma3", metadata={key: [True, True, True]})
    assert h.period == 4
    assert "every n-th global" in said(
        tmp_path, CapabilityError, "gemma3", metadata={key: [False, True, True]}
    )


def test_what_is_left_unsaid(tmp_path):
    h = numbers(
        tmp_path, kv_heads=4, metadata={"rope.freq_base": None, "attention.head_count_kv": None}
    )
    assert h.kv_heads == 4
    assert h.rotation.base == 10_000.0


def test_what_is_said_and_has_no_effect(tmp_path):
    plain = numbers(tmp_path)
    metadata = {
        "vocab_size": 23, "expert_count": 0, "attention.causal": True,
        "attention.max_alibi_bias": 0.0, "tensor_data_layout": "Meta AI original pth",
        "rope.scaling.type": "none", "rope.scaling.factor": 8.0, "rope.scaling.attn_factor": 1.0,
        "rope.scaling.original_context_length": 64, "rope.dimension_count": 16,
        "attention.head_count_kv": [2, 2, 2], "attention.scale": 0.0,
    }  # fmt: skip
    assert numbers(tmp_path, metadata=metadata) == plain
    rotary = {"blk.0.attn_rot_embd.weight": np.ones(8, dtype=np.float32)}
    assert numbers(tmp_path, tensors=rotary) == plain


def test_linear_scaling_in_files_old_and_new(tmp_path):
    for metadata in (
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
        {"rope.scaling.factor": 4.0},
        {"rope.scale_linear": 4.0},
    ):
        assert numbers(tmp_path, metadata=metadata).rotation.scale == 4.0


def test_attention_scale_of_the_file(tmp_path):
    assert numbers(tmp_path, metadata={"attention.scale": 0.5}).attention_scale == 0.5


def test_factors(tmp_path):
    factors = {"rope_freqs.weight": np.linspace(1, 8, 8, dtype=np.float32)}
    assert numbers(tmp_path, tensors=factors).rotation.factors == "rope_freqs.weight"
    assert "rope_freqs.weight in qwen3" in said(
        tmp_path, CapabilityError, "qwen3", tensors={"rope_freqs.weight": np.ones(16, np.float32)}
    )
    for bad, why in [
        (np.ones(16, np.float32), "is F32 [16]; it must be F32 [8]"),
        (np.ones(8, np.float16), "is F16 [8]; it must be F32 [8]"),
        (np.zeros(8, np.float32), "has a factor not above 0"),
        (np.full(8, np.nan, np.float32), "has a factor not above 0"),
    ]:
        assert said(tmp_path, ModelFileError, tensors={"rope_freqs.weight": bad}) == (
            f"tensor 'rope_freqs.weight' {why}"
        )


def test_other_architectures(tmp_path):
    message = said(tmp_path, CapabilityError, "qwen3moe")
    assert message == (
        "architecture 'qwen3moe' is not run by the native backend (those are: gemma3, llama, "
        "qwen2, qwen3); the transformers backend may know it"
    )
    assert said(tmp_path, ModelFileError, metadata={".general.architecture": 3}) == (
        "general.architecture is missing: not a model's file"
    )


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"rope.scaling.type": "yarn", "rope.scaling.yarn_log_multiplier": 0.1},
     "rope scaling 'yarn': only 'linear', and Llama 3's by rope_freqs.weight"),
    ("llama", {"rope.scaling.type": "longrope"},
     "rope scaling 'longrope': only 'linear', and Llama 3's by rope_freqs.weight"),
    ("llama", {"rope.scaling.attn_factor": 1.5},
     "llama.rope.scaling.attn_factor = 1.5: it may change what the model computes"),
    ("llama", {"expert_count": 8}, "experts (llama.expert_count = 8)"),
    ("gemma3", {"final_logit_softcapping": 30.0},
     "soft-capped logits (gemma3.final_logit_softcapping = 30.0)"),
    ("gemma3", {"attn_logit_softcapping": 50.0},
     "soft-capped attention (gemma3.attn_logit_softcapping = 50.0)"),
    ("llama", {"logit_scale": 0.5}, "scaled logits (llama.logit_scale = 0.5)"),
    ("llama", {"residual_scale": 0.5}, "scaled residuals (llama.residual_scale = 0.5)"),
    ("llama", {"embedding_scale": 2.0},
     "embeddings scaled by the file (llama.embedding_scale = 2.0)"),
    ("llama", {"attention.causal": False},
     "attention to later tokens (llama.attention.causal is not true)"),
    ("llama", {"attention.clamp_kqv": 8.0},
     "llama.attention.clamp_kqv = 8.0: it may change what the model computes"),
    ("qwen2", {"rope.freq_base_swa": 10.0},
     "qwen2.rope.freq_base_swa = 10.0: it may change what the model computes"),
    ("qwen2", {"attention.sliding_window": 6}, "a sliding window in qwen2 (6 tokens)"),
    ("qwen3", {"attention.value_length": 16}, "keys of 32 and values of 16: only equal widths"),
    ("llama", {"attention.head_count_kv": [2, 2, 1]},
     "layers of different shapes (llama.attention.head_count_kv = [2, 2, 1])"),
    ("llama", {".general.type": "adapter"}, "general.type 'adapter': only 'model'"),
    ("llama", {".split.count": 3},
     "one of 3 parts of a model: join them with llama-gguf-split --merge"),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "metadata", "what"), REFUSED)
def test_what_this_backend_does_not_run(architecture, metadata, what, tmp_path):
    message = said(tmp_path, CapabilityError, architecture, metadata=metadata)
    assert message == f"the native backend does not run {what}"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"block_count": None}, "llama.block_count is missing"),
    ({"block_count": 0}, "llama.block_count is 0, no whole number from 1 to 29"),
    ({"block_count": 1 << 30}, f"llama.block_count is {1 << 30}, no whole number from 1 to 29"),
    ({"block_count": 3.0}, "llama.block_count is 3.0, no whole number from 1 to 29"),
    ({"block_count": 4}, "tensor 'blk.3.attn_norm.weight' [64] is missing"),
    ({"embedding_length": None}, "llama.embedding_length is missing"),
    ({"embedding_length": "64"}, "llama.embedding_length is '64', no whole number of at least 1"),
    ({"embedding_length": 68},
     "17 values of a head should turn, and they turn in pairs "
     "(llama.rope.dimension_count, else a head's width)"),
    ({"embedding_length": 72}, "tensor 'token_embd.weight' (F32) has shape [23, 64], but the "
                               "metadata make it [23, 72]"),
    ({"attention.head_count": None}, "llama.attention.head_count is missing"),
    ({"attention.head_count": 5, "attention.head_count_kv": 5},
     "llama.attention.head_count is 5, no divisor of embedding_length, 64"),
    ({"attention.head_count_kv": 3},
     "llama.attention.head_count is 4, no multiple of head_count_kv, 3"),
    ({"attention.head_count_kv": 0},
     "llama.attention.head_count_kv is 0, no whole number of at least 1"),
    ({"attention.head_count_kv": ["2"]},
     "llama.attention.head_count_kv is ['2'], no whole number of at least 1"),
    ({"attention.head_count_kv": 4}, "tensor 'blk.0.attn_k.weight' (F32) has shape [32, 64], but "
                                     "the metadata make it [64, 64]"),
    ({"feed_forward_length": None}, "llama.feed_forward_length is missing"),
    ({"context_length": None}, "llama.context_length is missing"),
    ({"attention.layer_norm_rms_epsilon": None},
     "llama.attention.layer_norm_rms_epsilon is missing"),
    ({"attention.layer_norm_rms_epsilon": 0.0},
     "llama.attention.layer_norm_rms_epsilon is 0.0, not above 0"),
    ({"rope.freq_base": float("inf")}, "llama.rope.freq_base is inf, no finite number"),
    ({"rope.freq_base": -1.0}, "llama.rope.freq_base is -1.0, not above 0"),
    ({"rope.scaling.factor": -2.0}, "llama.rope.scaling.factor is -2.0, below 0"),
    ({"rope.dimension_count": 7},
     "7 values of a head should turn, and they turn in pairs "
     "(llama.rope.dimension_count, else a head's width)"),
    ({"rope.dimension_count": 18},
     "llama.rope.dimension_count is 18, no whole number from 1 to 16"),
    ({"attention.scale": -1.0}, "llama.attention.scale is -1.0, below 0"),
    ({".tokenizer.ggml.tokens": ["a"] * 24},
     "24 tokens but tensor 'token_embd.weight' (F32) has 23 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "why"), WRONG)
def test_numbers_that_cannot_be(metadata, why, tmp_path):
    assert said(tmp_path, ModelFileError, metadata=metadata) == why


def test_gemma3_must_say_its_base(tmp_path):
    """Taking the usual one for granted would be wrong: its own is 100 times larger."""
    message = said(tmp_path, ModelFileError, "gemma3", metadata={"rope.freq_base": None})
    assert message == "gemma3.rope.freq_base is missing"
