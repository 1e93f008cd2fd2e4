"""Drafters: cheap guessers that run ahead of the target. Registry by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forerun.drafters.base import Drafter, DrafterTraits, DraftRequest, Outlook
from forerun.drafters.head import (
    HeadDrafter,
    HeadGreedyPlusOneTreeDrafter,
    HeadJoinedTreeDrafter,
    HeadSampledTreeDrafter,
    HeadTreeDrafter,
)
from forerun.drafters.hybrid import HybridDrafter
from forerun.drafters.intersection import IntersectionDrafter
from forerun.drafters.joined_tree import JoinedTreeDrafter
from forerun.drafters.layer_skip import LayerSkipDrafter
from forerun.drafters.lookup import RememberingDrafter
from forerun.drafters.model import ModelDrafter
from forerun.drafters.ngram import NgramDrafter
from forerun.drafters.prediction import PredictionDrafter
from forerun.drafters.string_match import StringMatchDrafter
from forerun.drafters.suffix import SuffixDrafter
from forerun.drafters.suffix_tree import SuffixTreeDrafter
from forerun.drafters.tree import (
    GreedyPlusOneTreeDrafter,
    LikeliestTreeDrafter,
    SampledTreeDrafter,
)
from forerun.errors import OptionError, UnknownNameError, VocabularyError
from forerun.models.base import Model
from forerun.text.vocabulary import check_shared

DRAFTERS: dict[str, Callable[..., Drafter | None]] = {
    "none": lambda: None,
    "model": ModelDrafter,
    "layer-skip": LayerSkipDrafter,
    "intersection": IntersectionDrafter,
    "string-match": StringMatchDrafter,
    "ngram": NgramDrafter,
    "suffix": SuffixDrafter,
    "prediction": PredictionDrafter,
    "suffix-tree": SuffixTreeDrafter,
    "tree": LikeliestTreeDrafter,
    "joined-tree": JoinedTreeDrafter,
    "sampled-tree": SampledTreeDrafter,
    "greedy-plus-one-tree": GreedyPlusOneTreeDrafter,
    "head": HeadDrafter,
    "head-tree": HeadTreeDrafter,
    "head-joined-tree": HeadJoinedTreeDrafter,
    "head-sampled-tree": HeadSampledTreeDrafter,
    "head-greedy-plus-one-tree": HeadGreedyPlusOneTreeDrafter,
}

NEEDS = {
    "model": ("model", "a draft model: ModelDrafter(model), or --draft-model"),
    "intersection": ("model", "a draft model: IntersectionDrafter(model), or --draft-model"),
    "string-match": ("model", "a draft model: StringMatchDrafter(model), or --draft-model"),
    "tree": ("model", "a draft model: LikeliestTreeDrafter(model), or --draft-model"),
    "joined-tree": ("model", "a draft model: JoinedTreeDrafter(model), or --draft-model"),
    "sampled-tree": ("model", "a draft model: SampledTreeDrafter(model), or --draft-model"),
    "greedy-plus-one-tree": (
        "model",
        "a draft model: GreedyPlusOneTreeDrafter(model), or --draft-model",
    ),
    **dict.fromkeys(
        (
            "head",
            "head-tree",
            "head-joined-tree",
            "head-sampled-tree",
            "head-greedy-plus-one-tree",
        ),
        ("head", "a trained head: HeadDrafter(HeadModel(read_head(folder), target)), or --head"),
    ),
    "prediction": ("tokens", "the predicted text: PredictionDrafter(tokens)"),
}
"""Drafters that cannot be made from their name alone: the argument, and how to give it."""

TRANSLATING = frozenset({"intersection", "string-match"})
"""Drafters whose draft model has other tokens than the target."""


def drafter(spec: Drafter | str | None, **options: Any) -> Drafter | None:
    """The drafter itself, or the one of that name, made with `options`; None is plain decoding.

        drafter("ngram", longest=4)      drafter("model", model=small)      drafter("none")
        drafter("suffix+model", model=small)     several: the best of them in each round

    UnknownNameError names the known ones. OptionError where a name lacks what it needs, or where
    `spec` is no drafter; TypeError for an option that the drafter does not have.
    """
    if isinstance(spec, str) and "+" in spec:
        return _several(names(spec), options)
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


def names(spec: str) -> list[str]:
    """The drafters that `spec` names, joined by +. UnknownNameError, or OptionError for a name that
    is there twice and for "none" among others."""
    found = spec.split("+")
    for name in found:
        if name not in DRAFTERS:
            raise UnknownNameError.of("drafter", name, DRAFTERS)
    if len(found) > 1 and ("none" in found or len(set(found)) < len(found)):
        raise OptionError(
            f"drafters joined by + are different ones, such as suffix+model, not {spec!r}"
        )
    return found


def with_model(found: Sequence[str]) -> list[str]:
    """Those of the names that need a draft model."""
    return [name for name in found if NEEDS.get(name, ("",))[0] == "model"]


def with_head(found: Sequence[str]) -> list[str]:
    """Those of the names that need a trained head."""
    return [name for name in found if NEEDS.get(name, ("",))[0] == "head"]


def with_memory(found: Sequence[str]) -> list[str]:
    """Those of the names that can remember earlier requests' texts."""
    makes = [(name, DRAFTERS[name]) for name in found]
    return [
        n for n, make in makes if inspect.isclass(make) and issubclass(make, RememberingDrafter)
    ]


def fitting(target: Model, model: Model) -> str:
    """The drafter of a draft model that comes without one's name: "model" where the two number
    their tokens alike, else "intersection". It is for `check` to say whether that will do."""
    if target.tokenizer is None or model.tokenizer is None:
        return ModelDrafter.name
    try:
        check_shared(target.tokenizer, model.tokenizer)
    except VocabularyError:
        return IntersectionDrafter.name
    return ModelDrafter.name


def _several(found: Sequence[str], options: Mapping[str, Any]) -> Drafter:
    """Each of them, with those of the options that it takes."""
    left, made = dict(options), list[Drafter]()
    for name in found:
        takes = inspect.signature(DRAFTERS[name]).parameters
        one = drafter(name, **{key: left.pop(key) for key in list(left) if key in takes})
        assert one is not None  # "none" is not among several
        made.append(one)
    if left:
        raise TypeError(f"none of {', '.join(found)} takes an option {next(iter(left))!r}")
    return HybridDrafter(made)


__all__ = [
    "DRAFTERS",
    "DraftRequest",
    "Drafter",
    "DrafterTraits",
    "GreedyPlusOneTreeDrafter",
    "HeadDrafter",
    "HeadGreedyPlusOneTreeDrafter",
    "HeadJoinedTreeDrafter",
    "HeadSampledTreeDrafter",
    "HeadTreeDrafter",
    "HybridDrafter",
    "IntersectionDrafter",
    "JoinedTreeDrafter",
    "LayerSkipDrafter",
    "LikeliestTreeDrafter",
    "ModelDrafter",
    "NgramDrafter",
    "Outlook",
    "PredictionDrafter",
    "SampledTreeDrafter",
    "StringMatchDrafter",
    "SuffixDrafter",
    "SuffixTreeDrafter",
    "drafter",
]
