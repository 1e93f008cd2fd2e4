"""An endpoint held against its own logprobs: `--reference endpoint`.

What is asked about first: whether its logprobs come before the controls or after them, and whether
they cover what may come under the top-k that every setting gets here. If not, nothing is run.

What this module does not know: how laws are read (`endpoint_reference.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forerun.certify.build import OWN_LAWS, OWN_SHARE, Wanted, kind
from forerun.certify.endpoint_reference import CONTROLS, ROUNDING, EndpointReference
from forerun.certify.endpoint_reference import kind as kind_of
from forerun.certify.engines.endpoint import EndpointEngine
from forerun.certify.plan import Case, chosen
from forerun.certify.prompts import TEXTS
from forerun.certify.settings import Setting, matrix
from forerun.errors import CapabilityError, OptionError, PeerError
from forerun.sampling import is_whole

TOP = 20
"""Tokens asked for at each place; what vLLM and forerun give at most."""


def endpoint_case(wanted: Wanted) -> Case:
    """OptionError, CapabilityError or PeerError where the endpoint cannot be its own reference."""
    if kind(wanted.engine) != "endpoint":
        raise OptionError(
            f"--reference {OWN_LAWS} is for an address (http://…/v1), whose logprobs are read; "
            f"{wanted.engine} needs a model as the reference"
        )
    options = dict(wanted.options)
    count = _count(options.pop("top_logprobs", TOP))
    rounding = _rounding(options.pop("rounding", ROUNDING))
    given, ends = options.pop("prompts", None), options.pop("end_ids", ())
    if "controls" in options:
        options["controls"] = frozenset(options["controls"])
    engine = EndpointEngine(
        wanted.engine, wanted.model, end_ids=frozenset(_ids("end_ids", ends)), off_url=wanted.off,
        top_logprobs=count, **options,
    )  # fmt: skip
    try:
        if "top_k" not in engine.traits.controls:
            raise OptionError(
                "an endpoint that takes no top_k writes tokens that its logprobs do not list: name "
                "a local model with --reference"
            )
        asked = _prompts(engine, given)
        how = kind_of(engine, asked, count // 2, rounding)
        reference = EndpointReference(
            engine, kind=how, count=count, eos=frozenset(ends), rounding=rounding
        )
        traits = engine.traits
        if how == "raw":
            traits = replace(traits, controls=traits.controls & CONTROLS)
        settings = _cut(matrix(reference, asked, traits), reference.top_k)
    except BaseException:
        engine.close()
        raise
    return Case(
        name=f"{engine.name}, by its own logprobs",
        engine=engine,
        reference=reference,
        prompts=asked,
        settings=chosen(settings, wanted.settings),
        samples=4,
        share=OWN_SHARE,
        models={
            "kind": "endpoint", "how": how, "count": count, "rounding": rounding,
            "end_ids": sorted(ends),
        },
    )  # fmt: skip


def _cut(settings: Sequence[Setting], top_k: int) -> list[Setting]:
    """Each with a top-k that its logprobs cover."""

    def cut(sampling: object) -> dict[str, object]:
        given = dict(sampling)  # type: ignore[call-overload]
        return {**given, "top_k": min(given.get("top_k", top_k), top_k)}

    return [
        replace(each, sampling=cut(each.sampling), company=tuple(map(cut, each.company)))
        for each in settings
    ]


def _prompts(engine: EndpointEngine, given: object) -> list[tuple[int, ...]]:
    if given is not None:
        if not isinstance(given, list) or not given:
            raise OptionError(f"prompts are lists of ids, such as [[1,2,3],[4,5]], not {given!r}")
        return [tuple(_ids("prompts", one)) for one in given]
    try:
        return [engine.tokenize(text) for text in TEXTS]
    except CapabilityError as error:
        raise CapabilityError(
            f"prompts are asked as ids, and {error}: give them, --option prompts=[[1,2,3],[4,5]]"
        ) from error
    except PeerError as error:
        raise PeerError(f"the endpoint cannot be asked: {error}") from error


def _ids(name: str, given: object) -> list[int]:
    if not isinstance(given, list | tuple) or not all(is_whole(i) and i >= 0 for i in given):
        raise OptionError(f"{name} are token ids, such as [1,2,3], not {given!r}")
    return [int(i) for i in given]


def _count(given: object) -> int:
    if not is_whole(given) or not 2 <= given <= 1000:  # type: ignore[operator]
        raise OptionError(f"top_logprobs is a whole number from 2 to 1000, not {given!r}")
    return int(given)  # type: ignore[call-overload,no-any-return]


def _rounding(given: object) -> float:
    if not isinstance(given, int | float) or not 0 < given < 0.1:
        raise OptionError(f"rounding is that of a logprob, above 0 and below 0.1, not {given!r}")
    return float(given)
