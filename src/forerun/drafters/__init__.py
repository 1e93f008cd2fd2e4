"""Drafters: cheap guessers that run ahead of the target. Registry by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forerun.drafters.base import Drafter, DrafterTraits, DraftRequest
from forerun.drafters.model import ModelDrafter
from forerun.drafters.ngram import NgramDrafter
from forerun.drafters.prediction import PredictionDrafter
from forerun.drafters.suffix import SuffixDrafter
from forerun.errors import OptionError, UnknownNameError

DRAFTERS: dict[str, Callable[..., Drafter | None]] = {
    "none": lambda: None,
    "model": ModelDrafter,
    "ngram": NgramDrafter,
    "suffix": SuffixDrafter,
    "prediction": PredictionDrafter,
}

NEEDS = {
    "model": ("model", "a draft model: ModelDrafter(model), or --draft-model"),
    "prediction": ("tokens", "the predicted text: PredictionDrafter(tokens)"),
}
"""Drafters that cannot be made from their name alone: the argument, and how to give it."""


def drafter(spec: Drafter | str | None, **options: Any) -> Drafter | None:
    """The drafter itself, or the one of that name, made with `options`; None is plain decoding.

        drafter("ngram", longest=4)      drafter("model", model=small)      drafter("none")

    UnknownNameError names the known ones. OptionError where a name lacks what it needs, or where
    `spec` is no drafter; TypeError for an option that the drafter does not have.
    """
    if isinstance(spec, str):
        if spec not in DRAFTERS:
            raise UnknownNameError.of("drafter", spec, DRAFTERS)
        if spec in NEEDS and NEEDS[spec][0] not in options:
            raise OptionError(f"drafter {spec!r} needs {NEEDS[spec][1]}")
        return DRAFTERS[spec](**options)
    if options:
        raise OptionError(
            f"options {', '.join(options)} go with a drafter's name, not with {spec!r}"
        )
    if spec is None or isinstance(spec, Drafter):
        return spec
    raise OptionError(
        f"drafter takes a name, a Drafter or None, not {spec!r}; a model needs ModelDrafter"
    )


__all__ = [
    "DRAFTERS",
    "DraftRequest",
    "Drafter",
    "DrafterTraits",
    "ModelDrafter",
    "NgramDrafter",
    "PredictionDrafter",
    "SuffixDrafter",
    "drafter",
]
