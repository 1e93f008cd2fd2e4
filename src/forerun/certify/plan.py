"""What is certified, and how long it may take.

What this module does not know: how engines and models are made; how the run goes (`run.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forerun.certify.engines.base import Engine
from forerun.certify.reference import Reference
from forerun.certify.settings import Setting
from forerun.errors import OptionError, UnknownNameError


@dataclass(frozen=True, kw_only=True)
class Case:
    """An engine that runs one pair of models, and the reference for it."""

    name: str
    engine: Engine
    reference: Reference
    draft: Reference | None = None  # the draft model's law, where it is known
    prompts: Sequence[tuple[int, ...]]
    settings: Sequence[Setting]
    samples: int = 8  # of a request
    share: float = 1.0  # of the time, beside other cases
    models: Mapping[str, Any] = field(default_factory=dict)  # how the reference is made again


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long, how sure, and by which seed."""

    minutes: float = 5.0
    level: float = 1e-6  # largest chance of a false alarm of the whole run
    seed: int = 0
    trust_reference: bool = (
        False  # without speculation off to compare with, take the reference's word
    )
    tokens: int | None = None  # most of a setting; None: as many as there is time for

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise OptionError(f"minutes must be above 0, not {self.minutes!r}")
        if not 0 < self.level < 1:
            raise OptionError(f"level must be between 0 and 1, such as 1e-6, not {self.level!r}")
        if self.tokens is not None and self.tokens < 1:
            raise OptionError(f"tokens of a setting must be at least 1, not {self.tokens!r}")
        if not 0 <= self.seed < 2**31:
            raise OptionError(f"seed must be from 0 below 2**31, not {self.seed!r}")

    def level_of(self, tests: int) -> float:
        """The level of each of so many tests, so that all together keep the run's."""
        return self.level / max(tests, 1)


def chosen(settings: Sequence[Setting], names: Sequence[str]) -> list[Setting]:
    """Those of the names, in their order; all where none is named."""
    known = {each.name: each for each in settings}
    for name in names:
        if name not in known:
            raise UnknownNameError.of("setting", name, known)
    return [each for each in settings if not names or each.name in names]
