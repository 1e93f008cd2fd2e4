"""GGUF files: converted once, whole or not at all, and what is wrong with one is said."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import gguf
import pytest
import safetensors
import torch
import transformers as tf

from forerun.errors import FetchError, MissingExtraError, ModelFileError
from forerun.models import hf_convert
from forerun.models.hf import HFModel

from .contract import close
from .hf_modules import V, module_of, own, rows, sized


@pytest.fixture(scope="module")
def llama():
    return module_of(tf.LlamaConfig(**sized(eos_token_id=2)), dtype=torch.float32)


def paired(weight, heads):
    """Rotary halves interleaved, as GGUF files of this architecture keep queries and keys."""
    out, into = weight.shape
    return weight.reshape(heads, 2, out // heads // 2, into).swapaxes(1, 2).reshape(out, into)


@pytest.fixture(scope="module")
def gguf_file(llama, tmp_path_factory):
    """The same model as a GGUF file with float32 weights."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.F32.gguf"
    c = llama.config
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_vocab_size(V)
    out.add_context_length(c.max_position_embeddings)
    out.add_embedding_length(c.hidden_size)
    out.add_block_count(c.num_hidden_layers)
    out.add_feed_forward_length(c.intermediate_size)
    out.add_head_count(c.num_attention_heads)
    out.add_head_count_kv(c.num_key_value_heads)
    out.add_rope_freq_base(c.rope_parameters["rope_theta"])
    out.add_rope_dimension_count(c.head_dim)
    out.add_layer_norm_rms_eps(c.rms_norm_eps)
    out.add_eos_token_id(2)
    out.add_tokenizer_model("llama")
    out.add_token_list([f"t{i}" for i in range(V)])
    out.add_token_scores([0.0] * V)
    out.add_token_types([1] * V)
    weights = {k: v.numpy() for k, v in llama.state_dict().items()}
    out.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
    out.add_tensor("output_norm.weight", weights["model.norm.weight"])
    out.add_tensor("output.weight", weights["lm_head.weight"])
    for i in range(c.num_hidden_layers):
        at = f"model.layers.{i}."
        q, k = weights[at + "self_attn.q_proj.weight"], weights[at + "self_attn.k_proj.weight"]
        out.add_tensor(f"blk.{i}.attn_q.weight", paired(q, c.num_attention_heads).copy())
        out.add_tensor(f"blk.{i}.attn_k.weight", paired(k, c.num_key_value_heads).copy())
        for theirs, ours in {
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
            "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm",
        }.items():
            out.add_tensor(f"blk.{i}.{theirs}.weight", weights[f"{at}{ours}.weight"])
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def leftovers(cache):
    return [*cache.rglob(".convert-*"), *cache.rglob("*.partial")]


def claiming(file, blocks, to):
    """The GGUF file with another number of blocks in its header."""
    content = file.read_bytes()
    at = content.index(b"llama.block_count") + len(b"llama.block_count") + 4
    to.write_bytes(content[:at] + struct.pack("<I", blocks) + content[at + 4 :])
    return to


def test_a_gguf_file_is_converted_once(gguf_file, llama, tmp_path, monkeypatch, capfd):
    model = HFModel.load(gguf_file, cache_dir=tmp_path)
    assert model.name == "tiny.F32"
    assert model.eos == {2}
    close(rows(model), own(llama), 1e-4)
    assert capfd.readouterr() == ("", "")  # no progress bars
    made = [p.name for p in (tmp_path / "hf").iterdir()]
    assert len(made) == 2  # the folder, and "known"
    monkeypatch.setattr(hf_convert, "_convert", lambda *_: pytest.fail("converted again"))
    monkeypatch.setattr(hf_convert.hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    again = HFModel.load(gguf_file, cache_dir=tmp_path)
    close(rows(again), rows(model), 0)


def test_a_copy_shares_the_conversion_and_a_change_does_not(gguf_file, tmp_path):
    first = hf_convert.converted(gguf_file, dtype="float32", cache_dir=tmp_path / "cache")
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(gguf_file.read_bytes())
    assert hf_convert.converted(copy, dtype="float64", cache_dir=tmp_path / "cache") == first
    other = hf_convert.converted(copy, dtype="bfloat16", cache_dir=tmp_path / "cache")
    assert other != first
    data = bytearray(copy.read_bytes())
    data[-1] ^= 1  # the last weight
    copy.write_bytes(data)
    assert hf_convert.converted(copy, dtype="float32", cache_dir=tmp_path / "cache") != first
    assert not leftovers(tmp_path / "cache")


def test_broken_gguf_files_leave_nothing(gguf_file, tmp_path):
    whole = gguf_file.read_bytes()
    cache = tmp_path / "cache"
    for name, content, message in [
        ("words.gguf", b"not a model" * 9, "not a GGUF file: it begins with b'not '"),
        ("empty.gguf", b"", "0 bytes are too few for a GGUF file"),
        ("header.gguf", whole[:200], "the file may be incomplete or damaged"),
        ("half.gguf", whole[: len(whole) // 2], "it may be incomplete: fetch it again"),
    ]:
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(ModelFileError, match=message):
            HFModel.load(file, cache_dir=cache)
    assert [p.name for p in (cache / "hf").iterdir()] == ["known"]


def test_two_conversions_at_once_make_one(gguf_file, tmp_path, monkeypatch):
    """The slower one finds the folder there and uses it."""
    right = hf_convert._keep

    def slower(module, fresh, target):
        target.mkdir(parents=True)
        (target / "config.json").write_text("{}")
        right(module, fresh, target)

    monkeypatch.setattr(hf_convert, "_keep", slower)
    folder = hf_convert.converted(gguf_file, dtype="float32", cache_dir=tmp_path)
    assert json.loads((folder / "config.json").read_text()) == {}
    assert not leftovers(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        safetensors.SafetensorError("Error while serializing: No space left on device"),
    ],
)
def test_a_full_disk_is_no_broken_file(error, gguf_file, tmp_path, monkeypatch):
    def full(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(tf.LlamaForCausalLM, "save_pretrained", full)
        with pytest.raises(
            FetchError,
            match=r"the weights of .* could not be kept in .*No space left on device; free some",
        ):
            HFModel.load(gguf_file, cache_dir=tmp_path)
    assert [p.name for p in (tmp_path / "hf").iterdir()] == ["known"]
    HFModel.load(gguf_file, cache_dir=tmp_path)


def test_a_file_size_limit_is_no_broken_file(gguf_file, tmp_path):
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from forerun.models.hf_convert import converted\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "converted(Path(sys.argv[1]), dtype='float32', cache_dir=Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, gguf_file, tmp_path], capture_output=True, text=True
    )
    assert f"could not be kept in {tmp_path / 'hf'}: " in done.stderr
    assert "File too large" in done.stderr.splitlines()[-1]
    assert not leftovers(tmp_path)


def test_a_cache_that_is_no_folder(gguf_file, tmp_path, monkeypatch):
    monkeypatch.setattr(hf_convert, "_read", lambda *_: pytest.fail("read for nothing"))
    (tmp_path / "hf").write_text("in the way")
    with pytest.raises(FetchError, match=r"could not be kept in .*/hf: File exists; free some"):
        HFModel.load(gguf_file, cache_dir=tmp_path)
    with pytest.raises(FetchError, match=r"could not be kept in /proc/foo/hf: .*choose another"):
        HFModel.load(gguf_file, cache_dir=hf_convert.Path("/proc/foo"))


def test_what_a_killed_conversion_left_goes_with_the_next(gguf_file, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from forerun.models import hf_convert\n"
        "hf_convert._read = lambda *_: print('reading', flush=True) or time.sleep(60)\n"
        "hf_convert.converted(Path(sys.argv[1]), dtype='float32', cache_dir=Path(sys.argv[2]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, gguf_file, tmp_path], stdout=subprocess.PIPE
    ) as killed:
        assert killed.stdout.readline() == b"reading\n"
        killed.terminate()
        assert killed.wait() == -signal.SIGTERM
    (left,) = leftovers(tmp_path)
    live = tmp_path / "hf" / f".convert-{socket.gethostname()}-{os.getpid()}-abc"
    live.mkdir()
    os.utime(live, (time.time() - 2 * 24 * 3600,) * 2)
    hf_convert.converted(gguf_file, dtype="float32", cache_dir=tmp_path)
    assert not left.exists()
    assert leftovers(tmp_path) == [live]


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        (9999, "is 9999, but there are no tensors of block 3"),
        (2**32 - 1, "no tensors of block 3"),
        (1, "is 1, but there are tensors of block 2"),
        (0, "is 0, but there are tensors of block 2"),
    ],
)
def test_a_number_of_blocks_that_are_not_there(blocks, why, gguf_file, tmp_path, monkeypatch):
    monkeypatch.setattr(hf_convert, "_read", lambda *_: pytest.fail("it was read"))
    file = claiming(gguf_file, blocks, tmp_path / "damaged.gguf")
    with pytest.raises(ModelFileError, match=rf"GGUF model: llama\.block_count .*{why}"):
        HFModel.load(file, cache_dir=tmp_path)


def test_a_gguf_file_that_says_no_number_of_blocks(gguf_file, tmp_path):
    content = gguf_file.read_bytes().replace(b"llama.block_count", b"llama.block_taunt")
    (tmp_path / "damaged.gguf").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"it has no llama\.block_count"):
        HFModel.load(tmp_path / "damaged.gguf", cache_dir=tmp_path)


def test_a_note_that_cannot_be_written_is_done_without(gguf_file, tmp_path, monkeypatch):
    write = hf_convert.Path.write_text

    def full(self, text):
        write(self, text[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    known = tmp_path / "known"
    with monkeypatch.context() as patch:
        patch.setattr(hf_convert.Path, "write_text", full)
        digest = hf_convert._digest(gguf_file, known)
    assert list(known.iterdir()) == []
    assert hf_convert._digest(gguf_file, known) == digest


def test_gguf_without_its_libraries(gguf_file, tmp_path, monkeypatch):
    monkeypatch.setattr(hf_convert.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"accelerate and gguf: pip install 'forerun\[hf\]'"
    ):
        HFModel.load(gguf_file, cache_dir=tmp_path)
