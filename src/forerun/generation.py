"""One request in the loop: its text, and what the round needs to know about it.

What this module does not know: models, laws, how a round goes (`decode.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from forerun.control import Control
from forerun.errors import ForerunError
from forerun.numerics.logprobs import TokenLogprob
from forerun.numerics.randomness import Draws
from forerun.sampling import SamplingParams
from forerun.verifiers.base import Verifier

FinishReason = Literal["stop", "length", "cancelled", "error"]


class Follower(Protocol):
    """Follows a request's output token by token; the engine's turns it into text."""

    def push(self, token: int, *, may_stop: bool) -> bool:
        """True if this token completes a stop string (only asked to stop where it may)."""
        ...


class Constraint(Protocol):
    """Says what a request's output may be; `text.grammar.Matcher` does."""

    def allowed(self, path: tuple[int, ...]) -> Any:
        """Mask [V] of the tokens that may follow the drafted `path`; LawError where the path itself
        may not be."""
        ...

    def push(self, token: int) -> None:
        """`token` was committed."""
        ...

    def forced(self, count: int) -> Sequence[int]:
        """At most `count` tokens that must come next, or so it seems."""
        ...


@dataclass(kw_only=True)
class Generation:
    """One request in the loop. Everything the round needs to know about it, and nothing else."""

    request: int  # index in its call
    slot: int
    ids: list[int]  # prompt, then output
    prompt_length: int
    limit: int  # length of `ids` at which the budget or the context ends
    params: SamplingParams
    verifier: Verifier
    draws: Draws
    control: Control
    follower: Follower | None = None
    grammar: Constraint | None = None
    logprobs: int | None = None  # how many of the likeliest to name with each token's; None: none
    found: list[TokenLogprob] = field(default_factory=list)  # of the output, where asked for
    prompt_logprobs: int | None = None  # as `logprobs`, of the prompt
    heads: bool = False  # whether its trace has the likeliest tokens of each law
    prompt_found: list[TokenLogprob] = field(default_factory=list)  # from its second token on
    round: int = 0
    finish_reason: FinishReason | None = None
    error: ForerunError | None = None

    @property
    def output(self) -> list[int]:
        return self.ids[self.prompt_length :]

    @property
    def room(self) -> int:
        """Drafted tokens that the budget leaves room for, the round's own token set aside."""
        return max(self.limit - len(self.ids) - 1, 0)

    @property
    def prompt_scored(self) -> bool:
        """Whether no row of the prompt is wanted any more; until then it must be really read."""
        return self.prompt_logprobs is None or len(self.prompt_found) == self.prompt_length - 1

    def push(self, token: int) -> None:
        """Append a token of the output; `finish_reason` says so where it ends the text."""
        self.ids.append(token)
        if self.grammar is not None:
            self.grammar.push(token)
        may_stop = len(self.ids) - self.prompt_length >= self.params.min_tokens
        stopped = self.follower is not None and self.follower.push(token, may_stop=may_stop)
        if stopped or token in self.params.end_ids:
            self.finish_reason = "stop"
        elif len(self.ids) >= self.limit:
            self.finish_reason = "length"

    def fail(self, error: ForerunError) -> None:
        self.finish_reason, self.error = "error", error
