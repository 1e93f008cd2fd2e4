"""Folders and hub ids: what is loaded is what was saved, and failures leave nothing."""

from __future__ import annotations

import json
import sys

import pytest
import torch
import transformers as tf

from forerun.errors import FetchError, MissingExtraError, ModelFileError, OptionError
from forerun.models import hf_load
from forerun.models.hf import HFModel

from .contract import close
from .hf_modules import module_of, own, rows, sized


@pytest.fixture(scope="module")
def llama():
    return module_of(tf.LlamaConfig(**sized(eos_token_id=2)), dtype=torch.float32)


@pytest.fixture(scope="module")
def folder(llama, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny-llama"
    llama.save_pretrained(path)
    return path


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
