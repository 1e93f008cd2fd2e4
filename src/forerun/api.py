"""From names, paths and objects to an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from forerun.drafters import drafter as find_drafter
from forerun.drafters import fitting, names, with_head, with_model
from forerun.drafters.base import Drafter
from forerun.engine.choices import AUTO
from forerun.engine.engine import Engine
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.heads.load import AnyHead, load_head
from forerun.models.load import load_model


def load(
    model: Model | str | Path,
    drafter: Drafter | str | None = None,
    *,
    draft_model: Model | str | Path | None = None,
    head: AnyHead | str | Path | None = None,
    verifier: str = AUTO,
    num_draft: int | Literal["auto"] = AUTO,
    max_batch: int = 8,
    trace_heads: bool = False,
    backend: str = "auto",
    dtype: str = "float32",
    device: str = "cpu",
    threads: int | None = None,
    context: int | None = None,
    max_memory: int | None = None,
    prefix_memory: int = 0,
    share_prefixes: bool = False,
    max_waiting: int | None = None,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Engine:
    """An engine for a named model ("smollm2"), a GGUF file, a folder, a hub id, or a Model.

    drafter      "ngram", "suffix", "model" (needs draft_model), several of them joined by + such as
                 "suffix+model", a Drafter, or None: plain decoding. Of trees num_draft is the
                 number of nodes: "suffix-tree"; "tree", "joined-tree", "sampled-tree",
                 "greedy-plus-one-tree" (need draft_model). For a draft_model with other tokens:
                 "intersection", "string-match"
    draft_model  a smaller model; alone it means drafter="model" where both number their tokens
                 alike, else "intersection"
    head         the folder of a trained head (`forerun train`, or any of the speculators library's
                 EAGLE-3 form), or a HeadModel: for "head", "head-tree", "head-joined-tree",
                 "head-sampled-tree", "head-greedy-plus-one-tree"; alone it means
                 drafter="suffix+head". None: the one that comes with forerun, where there is one
                 for this model
    backend      "native" (GGUF files, on the CPU), "hf" (transformers), or "auto": native for GGUF
                 files unless another dtype or device is asked for
    dtype, device, threads, context, max_memory   of both models (bytes of caches, each)
    prefix_memory    bytes kept of what was read, of both models each; see `Engine`
    cache        folder for fetched and converted models, and for measured costs; None: the user's
                 cache folder
    progress     called with (bytes done, bytes in all) while a model is fetched

    The rest is as in `Engine`. Raises what `load_model` and `Engine` raise.
    """
    settings: dict[str, Any] = {
        "backend": backend,
        "dtype": dtype,
        "device": device,
        "threads": threads,
        "context": context,
        "max_memory": max_memory,
        "cache": cache,
        "progress": progress,
    }
    wanted = names(drafter) if isinstance(drafter, str) else []
    if with_model(wanted) and draft_model is None:
        raise OptionError(f"drafter {drafter!r} needs draft_model: a name, a path or a Model")
    if draft_model is not None and drafter is not None and not with_model(wanted):
        raise OptionError(f"draft_model goes with drafter 'model', not with {drafter!r}")
    if head is not None and drafter is not None and not with_head(wanted):
        raise OptionError(f"head goes with drafter 'head', not with {drafter!r}")
    if head is not None and draft_model is not None and drafter is None:
        raise OptionError("head and draft_model need a drafter, such as 'model+head'")
    target = model if isinstance(model, Model) else load_model(model, **settings)
    options: dict[str, Any] = {}
    if head is not None or with_head(wanted):
        options["head"] = load_head(head, target)
        drafter = "suffix+head" if drafter is None else drafter
    if draft_model is not None:
        small = (
            draft_model if isinstance(draft_model, Model) else load_model(draft_model, **settings)
        )
        named = fitting(target, small) if drafter is None else drafter
        drafter = find_drafter(named, model=small, prefix_memory=prefix_memory, **options)
    elif options:
        drafter = find_drafter(drafter, **options)
    return Engine(
        target,
        drafter,
        verifier=verifier,
        num_draft=num_draft,
        max_batch=max_batch,
        trace_heads=trace_heads,
        cache=cache,
        max_waiting=max_waiting,
        prefix_memory=prefix_memory,
        share_prefixes=share_prefixes,
    )
