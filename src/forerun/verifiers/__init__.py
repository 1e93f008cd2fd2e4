"""Verifiers: pure functions that decide which drafted tokens stay. Registry by name."""

from __future__ import annotations

from collections.abc import Callable

from forerun.errors import OptionError, UnknownNameError
from forerun.verifiers.base import Verdict, Verifier
from forerun.verifiers.block import BlockVerifier
from forerun.verifiers.coupled import CoupledVerifier
from forerun.verifiers.greedy_plus_one import GreedyPlusOneVerifier
from forerun.verifiers.recursive import RecursiveVerifier
from forerun.verifiers.rejection import RejectionVerifier
from forerun.verifiers.traversal import TraversalVerifier

VERIFIERS: dict[str, Callable[[], Verifier]] = {
    "rejection": RejectionVerifier,
    "block": BlockVerifier,
    "coupled": CoupledVerifier,
    "recursive": RecursiveVerifier,
    "greedy_plus_one": GreedyPlusOneVerifier,
    "traversal": TraversalVerifier,
}


def verifier(name: str) -> Verifier:
    """The verifier of that name; UnknownNameError names the known ones (`auto` is the engine's)."""
    if not isinstance(name, str):
        raise OptionError(
            f"verifier takes a name, not {name!r}; known: {', '.join(VERIFIERS)}, auto"
        )
    if name not in VERIFIERS:
        raise UnknownNameError.of("verifier", name, [*VERIFIERS, "auto"])
    return VERIFIERS[name]()


__all__ = [
    "VERIFIERS",
    "BlockVerifier",
    "CoupledVerifier",
    "GreedyPlusOneVerifier",
    "RecursiveVerifier",
    "RejectionVerifier",
    "TraversalVerifier",
    "Verdict",
    "Verifier",
    "verifier",
]
