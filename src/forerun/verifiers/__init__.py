"""Verifiers: pure functions that decide which drafted tokens stay. Registry by name."""

from __future__ import annotations

from collections.abc import Callable

from forerun.errors import OptionError, UnknownNameError
from forerun.verifiers.base import Verdict, Verifier
from forerun.verifiers.block import BlockVerifier
from forerun.verifiers.coupled import CoupledVerifier
from forerun.verifiers.rejection import RejectionVerifier

VERIFIERS: dict[str, Callable[[], Verifier]] = {
    "rejection": RejectionVerifier,
    "block": BlockVerifier,
    "coupled": CoupledVerifier,
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
    "RejectionVerifier",
    "Verdict",
    "Verifier",
    "verifier",
]
