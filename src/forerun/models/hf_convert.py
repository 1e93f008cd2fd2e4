"""GGUF files for transformers: dequantised once, kept as safetensors, quick to load from then on.

    <user cache>/hf/<sha256 of the file>-<dtype>-<version>/      config.json, model.safetensors
    <user cache>/hf/known/<hash of path, size, mtime>            the file's sha256, so that it is
                                                                 read in full only once

A folder appears by one rename, complete or not at all; until then it lies in a working folder,
`hf/.convert-<host>-<process>-…`, and those of killed processes go when the next file is converted.
It holds float32 (also for float64, which cannot say more) or bfloat16. Other versions of
transformers convert in their own way, so each keeps its own folder; old ones may be deleted at any
time.

What this module does not know: which file belongs to which named model; tokenizers.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs
import torch
import transformers

from forerun.errors import FetchError, MissingExtraError, ModelFileError
from forerun.models import store
from forerun.models.gguf import GGUFFile, read_gguf

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
    if not os.path.isdir(target):  # also where it must not be looked at
        _convert(file, target, getattr(torch, stored))
    return target


def _digest(file: Path, known: Path) -> str:
    """sha256 of the file's content, remembered by path, size and time of change."""
    file = file.resolve()
    state = file.stat()
    key = f"{file}\0{state.st_size}\0{state.st_mtime_ns}"
    note = known / hashlib.sha256(os.fsencode(key)).hexdigest()
    with contextlib.suppress(OSError):
        if len(found := note.read_text()) == 64:
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
    _check_blocks(read_gguf(file))
    try:
        with store.working_folder(target.parent, "convert") as folder:
            _keep(_dequantised(file, dtype), folder / "model", target)
    except ModelFileError:
        raise
    except Exception as error:  # safetensors has its own kind for a full disk
        reason = getattr(error, "strerror", None) or first_line(error)
        raise FetchError(
            f"the weights of {file} could not be kept in {target.parent}: {reason}; "
            "free some space there, or choose another cache folder"
        ) from error


def _check_blocks(file: GGUFFile) -> None:
    """ModelFileError where the number of blocks is not that of the blocks there are.

    transformers would first build as many as the file claims, or leave some out.
    """
    key = f"{file.metadata.get('general.architecture')}.block_count"
    count = file.metadata.get(key)
    names = (re.match(r"(?:enc\.|dec\.)?blk\.(\d+)\.", name) for name in file.tensors)
    found = {int(name[1]) for name in names if name}
    if not isinstance(count, int):
        why = f"it has no {key}"
    elif max(found, default=-1) >= count:
        why = f"{key} is {count}, but there are tensors of block {max(found)}"
    elif len(found) < count:
        lacking = next(i for i in range(count) if i not in found)
        why = f"{key} is {count}, but there are no tensors of block {lacking}"
    else:
        return
    raise ModelFileError(
        f"{file.path} cannot be read as a GGUF model: {why}; the file may be incomplete or damaged"
    )


def _keep(module: Any, fresh: Path, target: Path) -> None:
    """Save the module as the folder `target`, by way of `fresh`: whole or not at all."""
    with _silence():
        module.save_pretrained(fresh)
    try:
        fresh.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was faster, with the same content
            raise


def _dequantised(file: Path, dtype: torch.dtype) -> Any:
    """`_read`, or ModelFileError."""
    try:
        return _read(file, dtype)
    except Exception as error:  # the reader raises many kinds on a broken file
        raise ModelFileError(
            f"{file} cannot be read as a GGUF model: {first_line(error)}"
        ) from error


def _read(file: Path, dtype: torch.dtype) -> Any:
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
            ignore_mismatched_sizes=True,  # `refuse_misfits` says it in words
            **options,
        )
    refuse_misfits(info)
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


def refuse_misfits(info: dict[str, Any]) -> None:
    """ModelFileError where weights are missing or of another shape than the config says.

    transformers would fill them in at random.
    """
    if wrong := sorted(info["mismatched_keys"]):
        name, has, needs = wrong[0]
        more = f"; so do {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ModelFileError(
            f"{name} has the shape {list(has)}, where its config asks for {list(needs)}{more}"
        )
    if missing := sorted(info["missing_keys"]):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFileError(f"it lacks {missing[0]}{more}")


def first_line(error: Exception) -> str:
    """What the error says, without the advice that follows; its kind where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
