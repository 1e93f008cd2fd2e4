"""What comes out of a request: pieces, one for each round, and in the end the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from forerun.engine.request import Request
from forerun.engine.stops import TextFollower
from forerun.errors import ForerunError
from forerun.generation import FinishReason, Generation
from forerun.numerics.logprobs import TokenLogprob
from forerun.trace import Kind, Round, Stats, stats


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What came of a request."""

    text: str  # up to a stop string; end tokens do not show
    tokens: tuple[int, ...]  # up to the end token, or the token that completed a stop string
    finish_reason: FinishReason
    prompt: tuple[int, ...]  # token ids that were read
    seed: int  # repeats this output where the verifier is `coupled` or γ is fixed
    choice: int = 0  # which completion of the seed it is
    verifier: str
    trace: tuple[Round, ...]
    cached_tokens: int = 0  # of `prompt`, that were known from earlier requests and not read again
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each of `tokens`, where asked for
    prompt_logprobs: tuple[TokenLogprob | None, ...] | None = None  # of `prompt`; first is None
    submitted: float = 0.0  # seconds of the engine's clock: when it came,
    admitted: float | None = None  # when it first had a slot; None: never,
    ended: float = 0.0  # and when it ended
    error: ForerunError | None = None

    @cached_property
    def stats(self) -> Stats:
        return stats(self.trace)

    @property
    def usage(self) -> dict[str, int]:
        """Token counts under OpenAI's names."""
        read, written = len(self.prompt), len(self.tokens)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a round added to a stream. `text` may lag behind `tokens`: see `engine/stops.py`."""

    text: str
    tokens: tuple[int, ...]
    kinds: tuple[Kind, ...]
    parts: tuple[tuple[str, Kind], ...]  # `text`, split by the kind of the token that completed it
    logprobs: tuple[TokenLogprob, ...] | None = None  # of each of `tokens`, where asked for
    round: Round
    at: float  # seconds of the engine's clock (`time.monotonic`), at the end of the round


def completion(
    request: Request,
    g: Generation | None,
    trace: Sequence[Round],
    *,
    reason: FinishReason,
    cached_tokens: int,
    submitted: float,
    admitted: float | None,
    ended: float,
    error: ForerunError | None,
) -> Completion:
    """What came of a request; no generation for one that never began."""
    follower = None if g is None else g.follower
    return Completion(
        text=follower.text if isinstance(follower, TextFollower) else "",
        tokens=() if g is None else tuple(g.output),
        finish_reason=reason,
        prompt=request.prompt,
        seed=request.seed,
        choice=request.choice,
        verifier=request.verifier,
        trace=tuple(trace),
        cached_tokens=cached_tokens,
        submitted=submitted,
        admitted=admitted,
        ended=ended,
        logprobs=None if request.logprobs is None else () if g is None else tuple(g.found),
        prompt_logprobs=None if g is None or g.prompt_logprobs is None else (None, *g.prompt_found),
        error=error,
    )
