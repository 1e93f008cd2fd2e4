"""From what a user writes to a model: what each spelling means, and what a wrong one is told."""

from __future__ import annotations

import functools
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models

from forerun.errors import (
    FetchError,
    MissingExtraError,
    ModelFileError,
    OptionError,
    UnknownNameError,
)
from forerun.models import hub, load, store
from forerun.text.tokenizer import Tokenizer


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the backend was asked for; no weights are read."""
    asked: dict[str, Any] = {}

    def backend(source: Path | str, **options: Any) -> str:
        asked.update(options, source=source)
        return "the model"

    for name in load.BACKENDS:
        made = functools.partial(backend, backend=name)
        monkeypatch.setitem(load.BACKENDS, name, lambda device, made=made: made)  # type: ignore[arg-type, misc]
    return asked


def model_folder(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return path


def test_a_folder_without_tokenizer_files_knows_only_ids(
    tmp_path: Path, loaded: dict[str, Any]
) -> None:
    folder = model_folder(tmp_path)
    options: dict[str, Any] = {"dtype": "bfloat16", "threads": 2, "context": 64, "max_memory": 10}
    assert load.load_model(folder, **options) == "the model"
    assert loaded == options | {
        "source": folder,
        "backend": "hf",
        "tokenizer": None,
        "name": None,
        "device": "cpu",
        "cache_dir": None,
        "share_weights": False,
        "generation_defaults": None,
    }


def test_a_folder_with_a_tokenizer_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (model_folder(tmp_path) / "tokenizer.model").write_bytes(b"x")
    with pytest.raises(ModelFileError, match=r"has no tokenizer\.json"):
        load.find(tmp_path)


def test_a_home_folder_is_understood(
    tmp_path: Path, loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    model_folder(tmp_path / "m")
    load.load_model("~/m")
    assert loaded["source"] == tmp_path / "m"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("smolm2", UnknownNameError, "unknown model 'smolm2'; did you mean 'smollm2'.*hub id"),
        ("nowhere/model.gguf", ModelFileError, "nowhere/model.gguf: there is no such file"),
        ("model.gguf", ModelFileError, "model.gguf: there is no such file"),
        ("./none", ModelFileError, r"no such file or folder. A model is a named model \(smollm2"),
        ("/no/such/folder", ModelFileError, "no such file or folder"),
        ("~nobody-here/m.gguf", ModelFileError, "there is no such file"),
        ("a/b/c", ModelFileError, "no such file or folder"),
        ("", OptionError, r"a model needs a name: a named model \(smollm2\), a .gguf file"),
        (" ", OptionError, "a model needs a name"),
        ("http://x/y", ModelFileError, "^http://x/y: there is no such file or folder"),
        ("x" * 1000, ModelFileError, "xxx: cannot be read: File name too long"),
    ],
)
def test_wrong_names(
    name: str,
    error: type[Exception],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        load.find(name)


def test_a_missing_gguf_file_is_told_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "there.gguf").write_bytes(b"x")
    with pytest.raises(ModelFileError, match=r"no such file; .* holds there\.gguf"):
        load.find(tmp_path / "ther.gguf")


def test_a_folder_of_gguf_files_is_told_to_name_one(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"x")
    with pytest.raises(ModelFileError, match=r"no config.json, .*it holds a\.gguf: give that file"):
        load.find(tmp_path)


def test_a_file_that_is_no_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"PK" * 20)
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        load.find(file)


def test_a_file_in_parts(tmp_path: Path) -> None:
    key = b"split.count"
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key
    file = tmp_path / "model-00001-of-00003.gguf"
    file.write_bytes(header + struct.pack("<IH", 2, 3))
    with pytest.raises(ModelFileError, match="is one of 3 parts, which cannot be read"):
        load.find(file)


def test_an_unknown_backend() -> None:
    with pytest.raises(UnknownNameError, match="unknown backend 'tf'"):
        load.load_model("smollm2", backend="tf")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("org/name", True), ("Qwen/Qwen2.5-0.5B", True), ("name", False), ("./name", False),
     ("~/name", False), ("a/b/c", False), ("/a", False), ("../a", False)],
)  # fmt: skip
def test_what_looks_like_a_hub_id(name: str, expected: bool) -> None:
    assert hub.is_hub_id(name) is expected


def test_a_hub_model_gives_its_id_to_the_backend(
    tmp_path: Path, loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tokenizers.Tokenizer(models.BPE())
    written.decoder = decoders.ByteLevel()
    written.save(str(tmp_path / "tokenizer.json"))
    monkeypatch.setattr(load, "fetch_tokenizer", lambda name: tmp_path)
    load.load_model("org/name")
    assert loaded["source"] == "org/name"
    assert isinstance(loaded["tokenizer"], Tokenizer)


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    library = pytest.importorskip("huggingface_hub")

    def fail(*args: Any, **options: Any) -> None:
        raise OSError("no route\nand more")

    monkeypatch.setattr(library, "snapshot_download", fail)
    with pytest.raises(FetchError, match=r"'org/name' is no file .* hub: no route\. Give"):
        load.find("org/name")


def test_a_hub_id_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'forerun\[hf\]'"):
        load.find("org/name")


@pytest.fixture
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in ((store, "pull"), (load, "fetch_tokenizer")):
        monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("something was fetched"))


@pytest.mark.parametrize(
    ("name", "options"),
    [("smollm2", {"backend": "hf"}), ("smollm2", {"dtype": "bfloat16"}), ("org/name", {})],
)
@pytest.mark.usefixtures("nothing_is_fetched")
def test_without_torch_nothing_is_fetched(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [m for m in sys.modules if m.startswith("forerun.models.hf")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'forerun\[hf\]'"):
        load.load_model(name, **options)
    with pytest.raises(UnknownNameError, match="did you mean 'smollm2'"):
        load.load_model("smolm2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "dtype must be one of float32, bfloat16, float64, not 'int8'"),
        ({"dtype": "float16"}, "dtype must be one of float32, bfloat16, float64, not 'float16'"),
        ({"device": "abacus"}, "device 'abacus' is not one torch knows. Here work: cpu"),
        ({"device": "meta"}, "device 'meta' is not one torch can run on here. Here work: cpu"),
        ({"threads": 100_000}, "threads must be a whole number from 1 to .*, not 100000"),
    ],
)
@pytest.mark.usefixtures("nothing_is_fetched")
def test_impossible_options_fetch_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        load.load_model("smollm2", **options)


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        ({}, "native"),
        ({"backend": "native"}, "native"),
        ({"backend": "hf"}, "hf"),
        ({"dtype": "bfloat16"}, "hf"),
        ({"device": "cuda:1"}, "hf"),
    ],
)
def test_gguf_files_go_to_the_native_backend_unless_it_lacks_what_is_asked(
    options: dict[str, Any],
    backend: str,
    tmp_path: Path,
    loaded: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "a.gguf"
    file.touch()
    monkeypatch.setattr(load, "find", lambda name, **_: (file, None))
    load.load_model(file, **options)
    assert loaded["backend"] == backend


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "the native backend runs on the CPU, not on 'cuda': use backend 'hf'"),
        ({"dtype": "bfloat16"}, "computes as the file says; dtype bfloat16 is for backend 'hf'"),
    ],
)
def test_what_the_native_backend_does_not_do(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.gguf"
    file.touch()
    monkeypatch.setattr(load, "find", lambda name, **_: (file, None))
    with pytest.raises(OptionError, match=message):
        load.load_model(file, backend="native", **options)


def test_the_native_backend_runs_no_folders(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="the native backend runs GGUF files; this is none"):
        load.load_model(model_folder(tmp_path), backend="native")


def test_the_dtypes_are_the_backends() -> None:
    from forerun.models.hf_load import DTYPES

    assert tuple(DTYPES) == load.DTYPES


def test_importing_load_imports_no_backend() -> None:
    code = (
        "import sys, forerun.models.load; "
        "print([m for m in ('torch', 'transformers', 'huggingface_hub') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.model
def test_smollm2_by_name(smollm2_path: Path, loaded: dict[str, Any]) -> None:
    load.load_model("smollm2")
    assert (loaded["source"], loaded["name"]) == (smollm2_path, "smollm2")
    assert loaded["tokenizer"].vocab_size == 49152
    assert store.path_of("smollm2") == smollm2_path


def test_a_named_model_brings_its_recommended_sampling(
    tmp_path: Path, loaded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "find", lambda name, **_: (tmp_path, None))
    load.load_model("smollm2")
    assert loaded["name"] == "smollm2"
    assert loaded["generation_defaults"] == {"temperature": 0.2, "top_p": 0.9}
