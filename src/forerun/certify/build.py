"""From names to cases: which engine, with which models, and the reference for it.

    own(Wanted(engine="forerun", model="smollm2", drafter="suffix")) -> a Case

A case's `models` says how its reference is made, so that a report can be checked later
(`references.py`). The engine never shares a model object with the reference.

What this module does not know: how a run goes; tiny models (`tiny_cases.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forerun.certify.engines.base import Engine
from forerun.certify.plan import Case, chosen
from forerun.certify.prompts import prompts
from forerun.certify.reference import Reference
from forerun.certify.references import references
from forerun.certify.settings import matrix
from forerun.drafters import NEEDS, TRANSLATING, names
from forerun.drafters import drafter as find_drafter
from forerun.engine.choices import AUTO
from forerun.errors import OptionError, UnknownNameError
from forerun.models.base import Model
from forerun.models.heads.load import load_head
from forerun.models.load import load_model

FORERUN, TRANSFORMERS, LLAMA_CPP, VLLM = "forerun", "transformers", "llama-cpp-python", "vllm"
ENGINES = (FORERUN, TRANSFORMERS, LLAMA_CPP, VLLM)
"""By name; beside them an http(s) address, and `module:function`."""

OWN_LAWS = "endpoint"
"""As a reference: the endpoint's own logprobs."""

OWN_SHARE = 1.5
"""Of the time, for the user's own models beside one tiny pair."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be certified, under the command line's names. None: not given."""

    engine: str
    model: str | None = None
    draft_model: str | None = None
    head: str | None = None
    drafter: str | None = None
    verifier: str | None = None
    num_draft: int | str | None = None
    backend: str = AUTO
    dtype: str = "float32"
    threads: int | None = None
    reference: str | None = None  # the target's law, where `model` is not where it is
    off: str | None = None  # speculation off: an address, or module:function
    options: Mapping[str, Any] = field(default_factory=dict)  # of the engine's adapter
    settings: Sequence[str] = ()
    cache: Path | None = None


def kind(engine: str) -> str:
    """Which adapter a name belongs to; UnknownNameError for none."""
    if engine.startswith(("http://", "https://")):
        return "endpoint"
    if engine in ENGINES:
        return engine
    if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", engine):
        return "python"
    raise UnknownNameError(
        f"{UnknownNameError.of('engine', engine, ENGINES)} An address (http://…/v1) and an entry "
        "point (module:function) work too"
    )


# ---------------------------------------------------------------------- the user's own


def own(wanted: Wanted) -> Case:
    """The engine with the user's models."""
    if wanted.reference == OWN_LAWS:
        from forerun.certify.endpoint_case import endpoint_case

        return endpoint_case(wanted)
    if wanted.model is None and wanted.reference is None:
        return _of_entry(wanted)
    models = {
        "kind": "load",
        "target": wanted.reference or wanted.model,
        "draft": wanted.draft_model if _numbers_alike(wanted) else None,
        "backend": wanted.backend,
        "dtype": precise(wanted.dtype),
        "threads": wanted.threads,
        "precision": wanted.options.get("precision", precision(wanted)),
    }
    engine = made(wanted)
    laws = references(models, engine.traits.temperature_last, wanted.cache)
    if isinstance(engine, _Late):
        engine = engine.made(laws[0])
    return case(
        wanted,
        name=f"{engine.name}, {wanted.model or wanted.reference}",
        engine=engine,
        laws=laws,
        asked=prompts(laws[0].model),
        models=models,
        samples=4,
        share=OWN_SHARE,
    )


def case(
    wanted: Wanted,
    *,
    name: str,
    engine: Engine,
    laws: tuple[Reference, Reference | None],
    asked: Sequence[tuple[int, ...]],
    models: Mapping[str, Any],
    samples: int = 8,
    share: float = 1.0,
) -> Case:
    """A case with the settings that are wanted of those its reference and engine can tell.

    laws  the target's, and the draft's where it is known
    """
    reference, draft = laws
    return Case(
        name=name,
        engine=engine,
        reference=reference,
        draft=draft,
        prompts=asked,
        settings=chosen(matrix(reference, asked, engine.traits), wanted.settings),
        samples=samples,
        share=share,
        models=models,
    )


def made(wanted: Wanted) -> Any:
    """The engine's adapter; OptionError for an option that it does not have."""
    if wanted.model is None and kind(wanted.engine) in ENGINES:
        raise OptionError(f"{wanted.engine} needs to be given a model: -m NAME or PATH")
    try:
        return MAKERS[kind(wanted.engine)](wanted)
    except TypeError as error:
        raise OptionError(f"--option for {wanted.engine}: {error}") from error


def brings_models(wanted: Wanted) -> bool:
    """Whether there is a model beside the tiny ones: named, or by the callable itself."""
    if wanted.model is not None or wanted.reference is not None:
        return True
    from forerun.certify.engines.python import find

    return kind(wanted.engine) == "python" and hasattr(find(wanted.engine), "target")


def _of_entry(wanted: Wanted) -> Case:
    """A callable that brings its own `target`, and perhaps `draft`."""
    if not brings_models(wanted):
        raise OptionError(f"{wanted.engine} needs a model: -m NAME or PATH")
    engine = _python(wanted)
    models = {"kind": "python", "entry": wanted.engine, "precision": engine.traits.precision}
    laws = references(models, engine.traits.temperature_last)
    asked = prompts(laws[0].model)
    return case(wanted, name=wanted.engine, engine=engine, laws=laws, asked=asked, models=models)


def _numbers_alike(wanted: Wanted) -> bool:
    translated = TRANSLATING & set(names(wanted.drafter or "none"))
    different = translated or wanted.options.get("different_vocabulary")
    return wanted.draft_model is not None and not different


def precise(dtype: str) -> str:
    """What the reference computes in: never less than float32, whatever the engine does."""
    return "float64" if dtype == "float64" else "float32"


def precision(wanted: Wanted) -> Any:
    if kind(wanted.engine) == LLAMA_CPP:
        return "quantised"
    return "float32" if wanted.dtype == "float64" else wanted.dtype


def _forerun(wanted: Wanted) -> Engine:
    from forerun.certify.engines.own import OwnEngine

    settings = _loading(wanted)
    assert wanted.model is not None
    target = load_model(wanted.model, **settings)
    name = wanted.drafter or ("suffix" if wanted.draft_model is None else "model")
    options: dict[str, Any] = {}
    needed = needs(name)
    if "model" in needed:
        if wanted.draft_model is None:
            raise OptionError(f"--drafter {name} needs --draft-model")
        options["model"] = load_model(wanted.draft_model, **settings)
    if "head" in needed:
        options["head"] = load_head(wanted.head, target)
    if "tokens" in needed:
        options["tokens"] = prompts(target)[0]
    num_draft = 4 if wanted.num_draft is None else wanted.num_draft
    return OwnEngine(
        target,
        find_drafter(name, **options),
        verifier=wanted.verifier or AUTO,
        num_draft=num_draft,
        precision=precision(wanted),
        described={
            "backend": wanted.backend,
            "draft_model": wanted.draft_model,
            "head": wanted.head,
        },
        **dict(wanted.options),
    )


def needs(drafter: str) -> set[str]:
    """What a drafter, or several joined by +, cannot be made without: "model", "head", "tokens"."""
    return {NEEDS[name][0] for name in names(drafter) if name in NEEDS}


def _transformers(wanted: Wanted) -> Engine:
    from forerun.certify.engines.transformers import TransformersEngine

    options = dict(wanted.options)
    options.pop("different_vocabulary", None)
    assert wanted.model is not None
    return TransformersEngine(
        wanted.model,
        assistant=wanted.draft_model,
        num_draft=_number(wanted.num_draft),
        dtype=wanted.dtype,
        threads=wanted.threads,
        **options,
    )


def _llama_cpp(wanted: Wanted) -> Engine:
    from forerun.certify.engines.llama_cpp import LlamaCppEngine

    assert wanted.model is not None
    options = {k: v for k, v in wanted.options.items() if k != "precision"}
    if wanted.num_draft is not None:
        options["num_draft"] = _number(wanted.num_draft)
    return LlamaCppEngine(_file(wanted), threads=wanted.threads, **options)


def _file(wanted: Wanted) -> str:
    """A named model as the file it is kept in."""
    from forerun.models import store

    name = str(wanted.model)
    return str(store.pull(name, cache=wanted.cache)) if name in store.NAMED else name


def _vllm(wanted: Wanted) -> Engine:
    from forerun.certify.engines.vllm import VllmEngine

    options = dict(wanted.options)
    config = options.pop("speculative_config", None)
    if config is None:
        gamma = _number(wanted.num_draft) or 4
        config = {"num_speculative_tokens": gamma}
        if wanted.draft_model is None:
            config |= {"method": "ngram", "prompt_lookup_max": 3}
        else:
            config |= {"model": wanted.draft_model}
    assert wanted.model is not None
    return VllmEngine(wanted.model, speculative_config=config, dtype=wanted.dtype, **options)


def _python(wanted: Wanted) -> Engine:
    from forerun.certify.engines.python import PythonEngine, find

    if unknown := [name for name in wanted.options if name != "precision"]:
        raise OptionError(f"{wanted.engine} takes no option {unknown[0]}: it is called as it is")
    off = None if wanted.off is None else find(wanted.off)
    return PythonEngine(find(wanted.engine), off, name=wanted.engine)


@dataclass(frozen=True, kw_only=True)
class _Late:
    """An engine whose adapter needs the reference's tokenizer; `traits` are those of a plain
    one."""

    name: str
    made: Callable[[Reference], Engine]
    traits: Any


def _endpoint(wanted: Wanted) -> Any:
    from forerun.certify.engines.base import Traits
    from forerun.certify.engines.endpoint import EndpointEngine

    def made(reference: Reference) -> Engine:
        options = {"seeds": False, **wanted.options}
        name = options.pop("model", wanted.model)
        if "controls" in options:
            options["controls"] = frozenset(options["controls"])
        return EndpointEngine(
            wanted.engine,
            str(name),
            end_ids=reference.model.eos,
            find_token=_finder(reference.model),
            off_url=wanted.off,
            **options,
        )

    return _Late(name=wanted.engine, made=made, traits=Traits())


def _finder(model: Model) -> Callable[[str], int | None] | None:
    """A token's text -> its id, None where no id or several have that text."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        return None
    found: dict[str, int | None] = {}
    for i in range(model.vocab_size):
        try:
            text = tokenizer.token_bytes(i).decode()
        except UnicodeDecodeError:
            continue
        found[text] = None if text in found else i
    return found.get


MAKERS: dict[str, Callable[[Wanted], Any]] = {
    FORERUN: _forerun,
    TRANSFORMERS: _transformers,
    LLAMA_CPP: _llama_cpp,
    VLLM: _vllm,
    "python": _python,
    "endpoint": _endpoint,
}


def _number(num_draft: int | str | None) -> int | None:
    if isinstance(num_draft, str):
        raise OptionError(f"--num-draft {num_draft} is forerun's own; give a number")
    return num_draft


def _loading(wanted: Wanted) -> dict[str, Any]:
    return {
        "backend": wanted.backend,
        "dtype": wanted.dtype,
        "threads": wanted.threads,
        "cache": wanted.cache,
    }
