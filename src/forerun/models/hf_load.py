"""From a folder, a hub id or a GGUF file to a transformers module.

What this module does not know: slots and caches, tokenizers, named models.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from forerun.errors import FetchError, ModelFileError, OptionError
from forerun.models.hf_convert import converted, first_line, refuse_misfits

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def load_module(source: str | Path, *, dtype: str, device: str, cache_dir: Path | None) -> Any:
    """A causal language model in eval mode, on `device`.

    OptionError for an unknown dtype, or a device that is unknown, not there, or too small;
    ModelFileError for a missing or corrupt file or folder, or an unknown architecture; FetchError
    where a hub id cannot be fetched.
    """
    if dtype not in DTYPES:
        raise OptionError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    place = checked_device(device)
    path = Path(source).expanduser()
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelFileError(f"{path} is neither a folder nor a .gguf file")
        module = _read(converted(path, dtype=dtype, cache_dir=cache_dir), dtype)
    elif path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelFileError(f"{path} has no config.json; it is no transformers model folder")
        module = _read(path, dtype)
    elif _is_hub_id(str(source)):
        module = _fetch(str(source), dtype)
    else:
        raise ModelFileError(f"{source}: no such file or folder")
    try:
        return module.to(place)
    except (RuntimeError, TypeError, MemoryError) as error:  # no memory, or no such dtype there
        raise OptionError(
            f"device {device!r} cannot take the model in {dtype}: {first_line(error)}"
        ) from error


def checked_device(name: str) -> torch.device:
    """OptionError, naming the devices that work here, for any other."""
    works = ["cpu"]
    if torch.accelerator.is_available() and (found := torch.accelerator.current_accelerator()):
        works += [
            found.type,
            *(f"{found.type}:{i}" for i in range(torch.accelerator.device_count())),
        ]
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise OptionError(
            f"device {name!r} is not one torch knows. Here work: {', '.join(works)}"
        ) from error
    if device.type != "cpu" and str(device) not in works:
        raise OptionError(
            f"device {name!r} is not one torch can run on here. Here work: {', '.join(works)}"
        )
    return device


def _is_hub_id(source: str) -> bool:
    """`name` or `owner/name`, and no file ending of ours."""
    return (
        source.count("/") <= 1
        and not source.startswith((".", "/", "~"))
        and not source.endswith((".gguf", "/"))
    )


def _read(folder: Path, dtype: str) -> Any:
    try:
        return _from_pretrained(folder, dtype)
    except Exception as error:  # transformers and safetensors raise many kinds
        raise ModelFileError(
            f"{folder} cannot be read as a transformers model: {first_line(error)}"
        ) from error


def _fetch(name: str, dtype: str) -> Any:
    try:
        return _from_pretrained(name, dtype)
    except OSError as error:
        raise FetchError(
            f"{name!r} is no folder here and could not be fetched: {first_line(error)}"
        ) from error
    except Exception as error:  # it came, but cannot be used
        raise ModelFileError(
            f"{name!r} cannot be read as a transformers model: {first_line(error)}"
        ) from error


def _from_pretrained(source: str | Path, dtype: str) -> Any:
    with quiet():
        module, info = transformers.AutoModelForCausalLM.from_pretrained(
            source,
            dtype=DTYPES[dtype],
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # `refuse_misfits` says it in words
            trust_remote_code=False,  # else transformers may ask at the terminal
        )
    refuse_misfits(info)
    if dtype == "float64" and hasattr(module, "set_experts_implementation"):
        module.set_experts_implementation("eager")  # grouped kernels have no float64
    return module.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no advice from transformers in here; errors are raised all the same."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
