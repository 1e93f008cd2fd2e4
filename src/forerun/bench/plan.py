"""What is to be measured, and what has been measured so far.

This module does not know how systems are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forerun.bench import systems as systems_
from forerun.bench.figures import Run
from forerun.bench.passes import Passes
from forerun.bench.systems import System
from forerun.bench.workloads import Workload
from forerun.errors import OptionError, UnknownNameError

SAMPLINGS: dict[str, tuple[float, float]] = {
    "greedy": (0.0, 1.0),
    "nucleus": (1.0, 0.95),
    "sampled": (1.0, 1.0),
}
"""Names of ways to sample: temperature and top-p."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be measured."""

    model: str
    draft_model: str | None = None
    head: Path | None = None  # None: the one that comes with forerun, where a system needs one
    systems: Sequence[System]
    workloads: Sequence[Workload]
    samplings: Sequence[str] = ("greedy",)
    repeats: int = 3
    items: int = 4
    max_tokens: int = 128
    threads: int = 1
    seed: int = 0
    passes: bool = False
    peers: Path | None = None
    data: Path | None = None
    cache: Path | None = None

    def check(self) -> None:
        """OptionError for what cannot be run."""
        for name, least in (("repeats", 1), ("items", 1), ("max_tokens", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise OptionError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for sampling in self.samplings:
            if sampling not in SAMPLINGS:
                raise UnknownNameError.of("sampling", sampling, SAMPLINGS)
        if not self.systems:
            raise OptionError("there is no system to measure")
        for system in self.systems:
            systems_.command(system.engine, self.peers)
            if system.needs_draft_model and self.draft_model is None:
                raise OptionError(f"system {system.name} needs draft_model")


@dataclass(kw_only=True)
class Record:
    """What has been measured so far."""

    plan: Plan
    load: float | None = None  # of the machine, before anything ran
    engines: dict[str, dict[str, Any]] = field(default_factory=dict)  # what each says of itself
    failures: dict[str, str] = field(default_factory=dict)  # system or engine -> why
    runs: list[Run] = field(default_factory=list)
    passes: Passes | None = None
    complete: bool = False  # the run has come to its end
    interrupted: bool = False
