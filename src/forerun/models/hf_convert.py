"""GGUF files for transformers: dequantised once, kept as safetensors, quick to load from then on.

    <user cache>/hf/<sha256 of the file>-<dtype>-<version>/      config.json, model.safetensors
    <user cache>/hf/known/<hash of path, size, mtime>            the file's sha256, so that it is
                                                                 read in full only once

A folder appears by one rename, complete or not at all. It holds float32 (also for float64, which
cannot say more) or bfloat16. Other versions of transformers convert in their own way, so each keeps
its own folder; old ones may be deleted at any time.

What this module does not know: which file belongs to which named model; tokenizers.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs
import torch
import transformers

from forerun.errors import FetchError, MissingExtraError, ModelFileError

FORMAT = 1  # of the folder


def converted(file: Path, *, dtype: str, cache_dir: Path | None = None) -> Path:
    """The folder made from `file`, made now if it is not there.

    ModelFileError where the file cannot be read, FetchError where the folder cannot be written;
    then the cache is as it was.
    """
    root = cache_dir or Path(platformdirs.user_cache_dir("forerun"))
    stored = "bfloat16" if dtype == "bfloat16" else "float32"
    version = f"v{FORMAT}-transformers-{transformers.__version__}"
    target = root / "hf" / f"{_digest(file, root / 'hf' / 'known')}-{stored}-{version}"
    if not target.is_dir():
        _convert(file, target, getattr(torch, stored))
    return target


def _digest(file: Path, known: Path) -> str:
    """sha256 of the file's content, remembered by path, size and time of change."""
    file = file.resolve()
    state = file.stat()
    key = f"{file}\0{state.st_size}\0{state.st_mtime_ns}"
    note = known / hashlib.sha256(key.encode()).hexdigest()
    if note.is_file() and len(found := note.read_text()) == 64:
        return found
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    partial = note.with_name(f"{note.name}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):  # a full disk: the file is read again the next time
        known.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_text(found)
            partial.replace(note)
        finally:
            partial.unlink(missing_ok=True)
    return found


def _convert(file: Path, target: Path, dtype: torch.dtype) -> None:
    if missing := [n for n in ("accelerate", "gguf") if importlib.util.find_spec(n) is None]:
        raise MissingExtraError.of(" and ".join(missing), "hf", "reading a GGUF file")
    with file.open("rb") as content:
        if content.read(4) != b"GGUF":
            raise ModelFileError(f"{file} is no GGUF file: it does not begin with 'GGUF'")
    try:
        module = _dequantised(file, dtype)
    except Exception as error:  # the reader raises many kinds on a broken file
        raise ModelFileError(
            f"{file} cannot be read as a GGUF model: {first_line(error)}"
        ) from error
    try:
        _keep(module, target)
    except Exception as error:  # safetensors has its own kind for a full disk
        raise FetchError(
            f"{file} was read, but its weights could not be kept in {target.parent}:"
            f" {first_line(error)}; free some space there, or choose another cache folder"
        ) from error


def _keep(module: Any, target: Path) -> None:
    """Save the module as the folder `target`, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", suffix=".partial", dir=target.parent))
    try:
        with _silence():
            module.save_pretrained(partial)
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same content
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _dequantised(file: Path, dtype: torch.dtype) -> Any:
    """A dense model with the file's weights, which no longer says it was quantised."""
    options: dict[str, Any] = {}
    if hasattr(transformers, "GgufConfig"):  # there weights may stay packed, for kernels
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with _silence():
        module, info = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype=dtype,
            output_loading_info=True,
            **options,
        )
    refuse_missing(info)
    module.hf_quantizer = None
    if hasattr(module.config, "quantization_config"):
        del module.config.quantization_config
    return module


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    log = transformers.utils.logging
    level = log.get_verbosity()
    log.set_verbosity_error()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars that cannot be turned off
            yield
    finally:
        log.set_verbosity(level)


def refuse_missing(info: dict[str, Any]) -> None:
    """ModelFileError where weights are missing, which transformers would fill in at random."""
    if missing := sorted(info["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFileError(f"it lacks {missing[0]}{more}")


def first_line(error: Exception) -> str:
    """What the error says, without the advice that follows; its kind where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
