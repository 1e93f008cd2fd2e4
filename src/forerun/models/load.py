"""From what a user writes to a model: a name, a .gguf file, a folder, or a hub id.

    load_model("smollm2")                 a named model, fetched on first use (store.py)
    load_model("models/qwen.gguf")        a GGUF file
    load_model("checkpoints/tiny/")       a folder with config.json, as transformers saves it
    load_model("org/name")                a model of the Hugging Face hub

In this order; what exists as a file or folder is never taken for a hub id. GGUF files, named models
among them, go to the native backend unless another dtype or device is asked for; everything else to
transformers. Backends are imported when they are needed, not before; and nothing is fetched before
it is known that the backend is there and can do what is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from forerun.errors import ModelFileError, OptionError, UnknownNameError
from forerun.models import store
from forerun.models.gguf import read_gguf
from forerun.models.hub import fetch_tokenizer, is_hub_id
from forerun.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from forerun.models.base import Model

AUTO = "auto"
DTYPES = ("float32", "bfloat16", "float64")

_KINDS = (
    f"a named model ({', '.join(store.NAMED)}), a .gguf file, a folder with config.json, or a hub "
    "id such as 'org/name'"
)


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
    backend: str = AUTO,
    share_weights: bool = False,
) -> Model:
    """A model with its tokenizer, ready to run.

    `threads` (None: the backend's choice), `context` (tokens; None: all the model can), and
    `max_memory` (bytes of cache) go to the backend: "native", "hf", or "auto". `cache` is the
    folder forerun keeps its files in (None: the user's cache), and `progress(done, total)` follows
    a fetch, in bytes. `share_weights`: where the backend can, map the weights as it computes with
    them from a file in that folder, which the processes of a machine have in common; passes take a
    few percent longer for it.

    OptionError for options that the backend does not have; MissingExtraError where its libraries
    are missing; UnknownNameError for a name that is none of the four; ModelFileError for a file or
    folder that is not a model; FetchError if a named or hub model cannot be fetched.
    """
    if backend not in (AUTO, *BACKENDS):
        raise UnknownNameError.of("backend", backend, (AUTO, *BACKENDS))
    if dtype not in DTYPES:
        raise OptionError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    checked_threads(threads)
    name = os.fspath(name_or_path)
    meant = _meant(name)
    if backend == AUTO:
        backend = _fitting(meant, dtype, device)
    load = BACKENDS[backend](device)
    source, tokenizer = find(name, cache=cache, progress=progress)
    named = store.NAMED.get(name)
    return load(
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
        share_weights=share_weights,
    )


def _fitting(meant: Path | str, dtype: str, device: str) -> str:
    """The backend for what is meant: the native one for GGUF files where it does what is asked."""
    gguf = meant in store.NAMED if isinstance(meant, str) else meant.is_file()
    return "native" if gguf and dtype == "float32" and device == "cpu" else "hf"


def checked_threads(threads: int | None) -> None:
    """OptionError for a number of threads that torch would fail, or crash, to start."""
    most = max(256, os.cpu_count() or 1)
    whole = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is not None and not (whole and 1 <= threads <= most):
        raise OptionError(f"threads must be a whole number from 1 to {most}, not {threads!r}")


def find(
    name_or_path: str | os.PathLike[str],
    *,
    cache: Path | None = None,
    progress: store.Progress | None = None,
) -> tuple[Path | str, Tokenizer | None]:
    """Where the weights are (a file, a folder, or a hub id), and the tokenizer; no weights read.

    A folder without any tokenizer file gives None: a model that knows only ids.
    """
    source = _meant(os.fspath(name_or_path))
    if isinstance(source, str) and source in store.NAMED:
        source = store.pull(source, progress=progress, cache=cache)
    if isinstance(source, str):
        return source, Tokenizer.from_folder(fetch_tokenizer(source))
    return source, (_folder_tokenizer if source.is_dir() else _file_tokenizer)(source)


def _meant(name: str) -> Path | str:
    """A file or folder that exists, or the name of a known or hub model. Nothing is fetched."""
    if not name.strip():
        raise OptionError(f"a model needs a name: {_KINDS}")
    if name in store.NAMED:
        return name
    path = Path(os.path.expanduser(name))
    try:
        if path.is_file() or path.is_dir():
            return path
    except OSError as error:
        raise ModelFileError(f"{name}: cannot be read: {error.strerror or error}") from error
    if path.suffix == ".gguf":
        raise ModelFileError(f"{name}: there is no such file{_neighbours(path)}")
    if is_hub_id(name):
        return name
    if os.sep in name or "/" in name or name.startswith(("~", ".")):
        raise ModelFileError(f"{name}: there is no such file or folder. A model is {_KINDS}")
    unknown = UnknownNameError.of("model", name, store.NAMED)
    raise UnknownNameError(
        f"{unknown} A path to a .gguf file or to a folder with config.json works too, and so does "
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


def _native(device: str) -> Callable[..., Model]:
    from forerun.models.native.model import NativeModel

    if device != "cpu":
        raise OptionError(
            f"the native backend runs on the CPU, not on {device!r}: use backend 'hf'"
        )
    return NativeModel.load


def _hf(device: str) -> Callable[..., Model]:
    from forerun.models.hf import HFModel
    from forerun.models.hf_load import checked_device

    checked_device(device)
    return HFModel.load


BACKENDS: dict[str, Callable[[str], Callable[..., Model]]] = {
    "native": _native,
    "hf": _hf,
}
"""Backends by name. Each is asked for a device first, and raises where it or its own libraries are
not there; what it returns gets the source, its tokenizer, and `load_model`'s options."""
