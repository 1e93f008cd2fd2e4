"""Is a target the one that a head was trained on?

What this module does not know: what a head computes.
"""

from __future__ import annotations

from typing import Any, Protocol

from forerun.errors import CapabilityError, VocabularyError


class Trained(Protocol):
    """What a head's configuration says of its target."""

    @property
    def hidden(self) -> int: ...
    @property
    def taps(self) -> tuple[int, ...] | None: ...
    @property
    def target(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


def check_fit(name: str, config: Trained, highest: int, target: Any) -> None:
    """CapabilityError or VocabularyError, naming both, unless the head `name` can be on the target;
    `highest` is the largest id that it drafts."""
    said = f"head {name} does not fit {target.name}:"
    trained = f" (it was trained on {config.target})" if config.target else ""
    if not target.abilities.features:
        raise CapabilityError(f"{said} that hands out no hidden states")
    if target.hidden != config.hidden:
        raise CapabilityError(
            f"{said} it reads states of {config.hidden} values, where there are"
            f" {target.hidden}{trained}"
        )
    if (deepest := max(config.taps or (0,))) > target.layers:
        raise CapabilityError(
            f"{said} it reads what stands behind {deepest} layers, where there are"
            f" {target.layers}{trained}"
        )
    if highest >= target.vocab_size:
        raise VocabularyError(
            f"{said} it drafts id {highest}, where there are {target.vocab_size} tokens{trained}"
        )
    if other := differing(config.fingerprint, target.fingerprint):
        kind = CapabilityError if other == "weights" else VocabularyError
        raise kind(
            f"{said} it was trained on a model of other {other}{trained}; `forerun train` makes one"
            " for this"
        )


def check_same(name: str, config: Trained, highest: int, known: str, target: Any) -> None:
    """As `check_fit`, and CapabilityError where `known` is not the fingerprint of `target`: the
    head was loaded for another model."""
    check_fit(name, config, highest, target)
    if differing(known, target.fingerprint):
        raise CapabilityError(f"head {name} was loaded for another model than {target.name}")


def differing(one: str, other: str) -> str | None:
    """What two fingerprints do not share, of what both say: "weights", "tokens", or nothing."""
    for a, b, what in zip(one.split("/"), other.split("/"), ("weights", "tokens")):
        if a and b and a != b:
            return what
    return None
