"""The reference of a case, made from its record: so a report can be held against it again.

    references({"kind": "load", "target": "smollm2", …}, False) -> (target's, draft's or None)

kind  load: models by name or path   tabular, folders: tiny pairs by seed   python: a callable's own
      endpoint: laws that came with the samples

What this module does not know: engines.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forerun.certify.bits_verdict import TIES
from forerun.certify.reference import Reference
from forerun.certify.tiny import random_pair
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.load import load_model


def references(
    models: Mapping[str, Any],
    temperature_last: bool,
    cache: Path | None = None,
    folder: Path | None = None,
) -> tuple[Reference, Reference | None]:
    """The reference of the target, and of the draft where its law is known."""
    options: dict[str, Any] = {
        "temperature_last": temperature_last,
        "edge": TIES.get(models.get("precision", "float32"), TIES["float32"]),
    }
    if models["kind"] == "endpoint":
        from forerun.certify.endpoint_reference import EndpointReference

        eos = frozenset(models["end_ids"])
        told = {name: models[name] for name in ("count", "rounding")}
        return EndpointReference(None, kind=models["how"], eos=eos, **told), None
    target, draft = _models(models, cache, folder)
    return (
        Reference(target, **options),
        None if draft is None else Reference(draft, **options),
    )


def _models(
    models: Mapping[str, Any], cache: Path | None, folder: Path | None
) -> tuple[Model, Model | None]:
    if models["kind"] == "tabular":
        size = models["vocabulary"]
        pair = random_pair(vocabulary=size, seed=models["seed"], order=1, eos=size - 1)
        return pair.target(), pair.draft() if models["draft"] else None
    if models["kind"] == "python":
        from forerun.certify.engines.python import find

        function = find(models["entry"])
        return function.target, getattr(function, "draft", None)  # type: ignore[attr-defined]
    settings: dict[str, Any] = {"backend": models.get("backend", "hf"), "cache": cache}
    settings |= {"dtype": models.get("dtype", "float32"), "threads": models.get("threads")}
    if models["kind"] == "folders":
        if folder is None:
            raise OptionError("tiny models need a folder to be made in")
        made = folders(models, folder)
        return (
            load_model(made.bare, **settings),
            load_model(made.draft, **settings) if models["draft"] else None,
        )
    if models["kind"] != "load":
        raise OptionError(f"models of kind {models['kind']!r} are not known")
    draft = models.get("draft")
    return (
        load_model(models["target"], **settings),
        None if draft is None else load_model(draft, **settings),
    )


def folders(models: Mapping[str, Any], place: Path) -> Any:
    from forerun.certify.engines.tiny_folders import write

    return write(place, seed=models["seed"], vocabularies=models["vocabularies"])
