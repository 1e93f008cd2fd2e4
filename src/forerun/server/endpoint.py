"""What the service asks of an endpoint: `chat.py`, `completions.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

from forerun.engine import Completion, Prompt
from forerun.server.deltas import Delta
from forerun.server.events import Chunk
from forerun.server.requests import Sampling
from forerun.server.responses import Reply

VERSION = version("forerun")


@dataclass(frozen=True, kw_only=True)
class Head:
    """What an answer, and each chunk of a stream, begins with."""

    id: str
    created: int
    model: str
    system_fingerprint: str = f"forerun-{VERSION}"


class Endpoint(Protocol):
    """From a body to prompts, and from completions to a reply or to chunks.

    `reply`, `opening`, `ending` and `closing` may take long and are called in a thread, one at a
    time; `part` is called in the event loop.
    """

    @property
    def body(self) -> Sampling: ...

    @property
    def prompts(self) -> Sequence[Prompt]: ...

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of the engine."""
        ...

    @property
    def top(self) -> int | None:
        """Likeliest tokens shown with each; None: no log-probabilities."""
        ...

    def reply(self, head: Head, choices: Sequence[Completion]) -> Reply: ...

    def chunk(self, head: Head, choices: list[Any]) -> Chunk:
        """Of what `opening`, `part` and `ending` give; of none in the last, which has the usage."""
        ...

    def opening(self, index: int) -> Any | None:
        """What a choice begins with, before its first token."""
        ...

    def part(self, delta: Delta) -> Any | None:
        """What a round brought to a choice."""
        ...

    def ending(self, delta: Delta) -> Any:
        """The last of a choice: why it ended."""
        ...

    def closing(self, chunk: Chunk, choices: Sequence[Completion]) -> None:
        """The endpoint's own of the last chunk."""
        ...
