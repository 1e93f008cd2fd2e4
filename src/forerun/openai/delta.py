"""What a stream says next of a choice, before it takes an endpoint's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from forerun.engine import Completion
from forerun.trace import Round


@dataclass(frozen=True, kw_only=True)
class Delta:
    """New text and tokens of a choice; `done` with the last, which has nothing else."""

    choice: int
    text: str = ""
    tokens: tuple[int, ...] = ()
    logprobs: tuple[Any, ...] = ()  # of each of `tokens`, where asked for
    rounds: tuple[Round, ...] = ()
    done: Completion | None = None

    @property
    def finish_reason(self) -> Literal["stop", "length"] | None:
        return None if self.done is None else finish_reason(self.done)


def finish_reason(done: Completion) -> Literal["stop", "length"]:
    """Of one that neither failed nor was cancelled."""
    return "length" if done.finish_reason == "length" else "stop"
