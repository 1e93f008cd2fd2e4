"""From what a user writes to a model: a name, a .gguf file, a folder, or a hub id.

    load_model("smollm2")                 a named model, fetched on first use (store.py)
    load_model("models/qwen.gguf")        a GGUF file
    load_model("checkpoints/tiny/")       a folder with config.json, as transformers saves it
    load_model("org/name")                a model of the Hugging Face hub

In this order; what exists as a file or folder is never taken for a hub id. Backends are imported
when they are needed, not before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forerun.errors import ModelFileError, UnknownNameError
from forerun.models import store
from forerun.models.gguf import read_gguf
from forerun.models.hub import fetch_tokenizer, is_hub_id
from forerun.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from forerun.models.base import Model


def load_model(
    name_or_path: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    device: str = "cpu",
    threads: int | None = None,
    context: int | None = None,
    max_memory: int | None = None,
    cache: Path | None = None,
    progress: store.Progress | None = None,
    backend: str = "hf",
) -> Model:
    """A model with its tokenizer, ready to run.

    `threads` (None: the backend's choice), `context` (tokens; None: all the model can), and
    `max_memory` (bytes of cache) go to the backend. `cache` is the folder forerun keeps its files
    in (None: the user's cache), and `progress(done, total)` follows a fetch, in bytes.

    UnknownNameError for a name that is none of the four; ModelFileError for a file or folder that
    is not a model; FetchError if a named or hub model cannot be fetched.
    """
    if backend not in BACKENDS:
        raise UnknownNameError.of("backend", backend, BACKENDS)
    source, tokenizer = find(name_or_path, cache=cache, progress=progress)
    named = store.NAMED.get(os.fspath(name_or_path))
    return BACKENDS[backend](
        source,
        tokenizer=tokenizer,
        name=named.name if named else None,
        generation_defaults=named.generation_defaults if named else None,
        dtype=dtype,
        device=device,
        threads=threads,
        context=context,
        max_memory=max_memory,
        cache_dir=cache,
    )


def find(
    name_or_path: str | os.PathLike[str],
    *,
    cache: Path | None = None,
    progress: store.Progress | None = None,
) -> tuple[Path | str, Tokenizer | None]:
    """Where the weights are (a file, a folder, or a hub id), and the tokenizer; no weights read.

    A folder without any tokenizer file gives None: a model that knows only ids.
    """
    name = os.fspath(name_or_path)
    if name in store.NAMED:
        path = store.pull(name, progress=progress, cache=cache)
        return path, _file_tokenizer(path)
    path = Path(name).expanduser()
    if path.is_file():
        return path, _file_tokenizer(path)
    if path.is_dir():
        return path, _folder_tokenizer(path)
    if path.suffix == ".gguf":
        raise ModelFileError(f"{path}: there is no such file{_neighbours(path)}")
    if is_hub_id(name):
        return name, Tokenizer.from_folder(fetch_tokenizer(name))
    if os.sep in name or "/" in name or name.startswith(("~", ".")):
        raise ModelFileError(
            f"{path}: there is no such file or folder. A model is a named model "
            f"({', '.join(store.NAMED)}), a .gguf file, a folder with config.json, or a hub id "
            "such as 'org/name'"
        )
    error = UnknownNameError.of("model", name, store.NAMED)
    raise UnknownNameError(
        f"{error} A path to a .gguf file or to a folder with config.json works too, and so does "
        "a hub id such as 'org/name'"
    )


def _file_tokenizer(path: Path) -> Tokenizer:
    metadata = read_gguf(path).metadata
    parts = metadata.get("split.count", 1)
    if parts != 1:
        raise ModelFileError(
            f"{path} is one of {parts} parts, which cannot be read; llama.cpp's "
            "`llama-gguf-split --merge` makes one file of them"
        )
    return Tokenizer.from_gguf(metadata)


def _folder_tokenizer(folder: Path) -> Tokenizer | None:
    if not (folder / "config.json").is_file():
        files = sorted(file.name for file in folder.glob("*.gguf"))
        hint = f"; it holds {', '.join(files)}: give that file" if files else ""
        raise ModelFileError(
            f"{folder} is not a model folder: it has no config.json, as transformers saves it{hint}"
        )
    if any(folder.glob("tokenizer*")):
        return Tokenizer.from_folder(folder)
    return None


def _neighbours(path: Path) -> str:
    """The .gguf files where a missing one was looked for."""
    try:
        files = sorted(file.name for file in path.parent.glob("*.gguf"))
    except OSError:
        files = []
    return f"; {path.parent} holds {', '.join(files[:8])}" if files else ""


def _load_hf(source: Path | str, **options: Any) -> Model:
    from forerun.models.hf import HFModel

    return HFModel.load(source, **options)


BACKENDS: dict[str, Callable[..., Model]] = {"hf": _load_hf}
"""Backends by name; each gets the source, its tokenizer, and `load_model`'s options."""
