"""What is asked of an endpoint: `chat.py`, `completions.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

from forerun.engine import Completion, Engine, Prompt
from forerun.openai.delta import Delta
from forerun.openai.errors import ApiError
from forerun.openai.requests import Sampling
from forerun.openai.responses import Chunk, Reply

VERSION = version("forerun")


@dataclass(frozen=True, kw_only=True)
class Head:
    """What an answer, and each chunk of a stream, begins with."""

    id: str
    created: int
    model: str
    system_fingerprint: str  # see `fingerprint`


def fingerprint(engine: Engine) -> str:
    """Of what computes: a seeded text is the same where these agree."""
    path = getattr(engine.target, "path", None)
    return f"forerun-{VERSION}" + (f"-{path}" if isinstance(path, str) else "")


def named(model: str | None, served: Sequence[str]) -> str:
    """The name to answer with, of those that are `served`. ApiError 404 for another."""
    if model is None:
        return served[0]
    if model not in served:
        raise ApiError(
            404, f"the model {model[:80]!r} is not served here; served: {', '.join(served)}",
            param="model", code="model_not_found",
        )  # fmt: skip
    return model


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
