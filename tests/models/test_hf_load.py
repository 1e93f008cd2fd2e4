"""Folders, GGUF files and hub ids: what is loaded is what was saved, and failures leave nothing."""

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

from forerun.errors import FetchError, MissingExtraError, ModelFileError, OptionError
from forerun.models import hf_convert, hf_load
from forerun.models.base import Step
from forerun.models.hf import HFModel

from .contract import close
from .hf_modules import V, module_of, sized

TEXT = [5, 9, 2, 30, 11, 7]


@pytest.fixture(scope="module")
def llama():
    return module_of(tf.LlamaConfig(**sized(eos_token_id=2)), dtype=torch.float32)


@pytest.fixture(scope="module")
def folder(llama, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny-llama"
    llama.save_pretrained(path)
    return path


def own(module):
    with torch.no_grad():
        return module(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0]


def rows(model):
    return model.extend([Step(slot=model.open(), tokens=TEXT)])[0]


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


def test_a_folder(folder, llama):
    model = HFModel.load(folder)
    assert model.name == "tiny-llama"
    assert model.eos == {2}
    assert model.context == 128
    close(rows(model), own(llama), 1e-4)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_dtypes(folder, llama, dtype):
    model = HFModel.load(str(folder), dtype=dtype, name="other")
    assert model.name == "other"
    assert model.module.dtype == getattr(torch, dtype)
    expected = own(llama).to(torch.float64 if dtype == "float64" else torch.float32)
    spread = (expected.max() - expected.min()).item()
    close(rows(model), expected, spread * (1e-5 if dtype == "float64" else 0.1))


def test_experts_in_float64(tmp_path):
    """Grouped expert kernels have no float64; the plain ones are chosen."""
    config = tf.MixtralConfig(**sized(num_local_experts=4, num_experts_per_tok=2, head_dim=8))
    saved = module_of(config, dtype=torch.float32)
    saved.save_pretrained(tmp_path / "moe")
    close(rows(HFModel.load(tmp_path / "moe", dtype="float64")), own(saved.double()), 1e-4)


def test_threads_are_set(folder):
    before = torch.get_num_threads()
    try:
        HFModel.load(folder, threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [0, -1, 100_000, 1.5, True, "2"])
def test_threads_that_cannot_be_started(threads, tmp_path):
    with pytest.raises(OptionError, match=rf"threads must be a whole number from 1 to .*{threads}"):
        HFModel.load(tmp_path / "never looked at", threads=threads)


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


def test_without_torch(monkeypatch):
    for loaded in [name for name in sys.modules if name.startswith("forerun.models.hf")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"a transformers model needs torch and transformers: pip install 'forerun\[hf\]'"
    with pytest.raises(MissingExtraError, match=message):
        import forerun.models.hf  # noqa: F401


def test_what_is_no_model(tmp_path, folder):
    with pytest.raises(ModelFileError, match="no such file or folder"):
        HFModel.load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match=r"has no config\.json"):
        HFModel.load(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelFileError, match=r"neither a folder nor a \.gguf file"):
        HFModel.load(tmp_path / "notes.txt")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelFileError, match="cannot be read as a transformers model"):
        HFModel.load(broken)


def test_weights_that_are_missing_are_an_error(tmp_path, folder):
    """transformers would fill them in at random."""
    from safetensors.torch import load_file, save_file

    less = tmp_path / "less"
    less.mkdir()
    for file in folder.iterdir():
        (less / file.name).write_bytes(file.read_bytes())
    weights = load_file(less / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, less / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelFileError, match=r"lacks model\.layers\.1\.mlp\.up_proj\.weight"):
        HFModel.load(less)


def test_weights_of_another_shape_are_an_error(tmp_path, llama, capfd):
    llama.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 8}))
    capfd.readouterr()
    with pytest.raises(
        ModelFileError, match=r"mlp\.\S+ has the shape \[.*\], where its config asks .* more$"
    ) as said:
        HFModel.load(tmp_path)
    assert "report" not in str(said.value)
    assert capfd.readouterr() == ("", "")


def test_options_that_are_no_options(folder):
    with pytest.raises(
        OptionError, match="dtype must be one of float32, bfloat16, float64, not 'int8'"
    ):
        HFModel.load(folder, dtype="int8")
    with pytest.raises(
        OptionError, match=r"device 'abacus' is not one torch knows\. Here work: cpu"
    ):
        HFModel.load(folder, device="abacus")


def accelerators(monkeypatch, kind, count):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: kind is not None)
    monkeypatch.setattr(
        torch.accelerator,
        "current_accelerator",
        lambda: None if kind is None else torch.device(kind),
    )
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "xpu", "meta"])
def test_devices_that_are_not_there(device, tmp_path, monkeypatch):
    accelerators(monkeypatch, None, 0)
    with pytest.raises(
        OptionError, match=rf"device '{device}' is not one torch can run on here\. Here work: cpu$"
    ):
        HFModel.load(tmp_path / "never looked at", device=device)


def test_devices_that_are_there(monkeypatch):
    accelerators(monkeypatch, "cuda", 2)
    for device in ("cpu", "cuda", "cuda:1"):
        assert hf_load.checked_device(device) == torch.device(device)
    with pytest.raises(OptionError, match=r"'cuda:2' .* Here work: cpu, cuda, cuda:0, cuda:1$"):
        hf_load.checked_device("cuda:2")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"),
        TypeError("Cannot convert a MPS Tensor to float64 dtype"),
    ],
)
def test_a_device_that_cannot_take_the_model(error, folder, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(tf.LlamaForCausalLM, "to", fail)
    with pytest.raises(
        OptionError, match="device 'cpu' cannot take the model in float32: C"
    ) as said:
        HFModel.load(folder)
    assert "more" not in str(said.value)


def unknown_architecture(path):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "abacus"}))
    return path


def test_an_unknown_architecture(tmp_path, monkeypatch):
    strange = unknown_architecture(tmp_path / "strange")
    with pytest.raises(
        ModelFileError, match=r"strange cannot be read .* model type `abacus`"
    ) as said:
        HFModel.load(strange)
    assert "\n" not in str(said.value)
    read = hf_load._from_pretrained
    monkeypatch.setattr(hf_load, "_from_pretrained", lambda name, dtype: read(strange, dtype))
    with pytest.raises(ModelFileError, match=r"'owner/name' cannot be read .* model type `abacus`"):
        HFModel.load("owner/name")


def test_an_architecture_that_is_no_language_model(tmp_path):
    tf.T5Config(d_model=8).save_pretrained(tmp_path)
    with pytest.raises(ModelFileError, match="cannot be read as a transformers model") as said:
        HFModel.load(tmp_path)
    assert "\n" not in str(said.value)


def test_foreign_code_is_not_run_nor_asked_about(tmp_path):
    strange = unknown_architecture(tmp_path / "strange")
    config = {"model_type": "abacus", "auto_map": {"AutoConfig": "own.Config"}}
    (strange / "config.json").write_text(json.dumps(config))
    (strange / "own.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(ModelFileError, match="cannot be read as a transformers model"):
        HFModel.load(strange)


def test_a_hub_id_out_of_reach(monkeypatch):
    def offline(*args, **options):
        raise OSError("We couldn't connect to 'https://huggingface.co'")

    monkeypatch.setattr(hf_load.transformers.AutoModelForCausalLM, "from_pretrained", offline)
    with pytest.raises(FetchError, match="'owner/name' is no folder here and could not be fetched"):
        HFModel.load("owner/name")
