"""A request on its way: queued, in a slot, ended; and what it has brought so far.

The scheduler moves it; a stream hands out its pieces. All fields are written by whoever takes the
turn; `pieces` may be taken from by another thread meanwhile, and `done` is the
last thing to be set.

What this module does not know: models, slots' memory, threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from forerun.engine.completion import Completion, Piece, completion
from forerun.engine.request import Request
from forerun.engine.shared_prompt import SharedPrompt
from forerun.engine.stops import TextFollower
from forerun.errors import ForerunError
from forerun.generation import FinishReason, Generation
from forerun.numerics.randomness import Draws
from forerun.trace import Kind, Round


class Job:
    """One request and its state.

    request   checked
    number    rises with each arrival; the lowest goes first
    deadline  the scheduler's clock at which it ends; None: never
    submitted the scheduler's clock at which it came
    draws     its source of randomness; None: keyed by its seed
    shared    with the other choices of its prompt; None: there are none, or it has read it
    notify    called after each round that brought something, and at the end
    """

    def __init__(
        self,
        request: Request,
        *,
        number: int,
        deadline: float | None = None,
        submitted: float = 0.0,
        draws: Draws | None = None,
        shared: SharedPrompt | None = None,
        notify: Callable[[], None] | None = None,
    ) -> None:
        self.request = request
        self.number = number
        self.deadline = deadline
        self.submitted = submitted
        self.admitted: float | None = None  # when it first had a slot
        self.draws = draws
        self.shared = shared
        self.notify = notify
        self.generation: Generation | None = None  # once it was admitted; kept if preempted
        self.drafting = False  # the drafter knows its slot
        self.cached_tokens: int | None = None  # of the prompt, known when it was first admitted
        self.pieces: deque[Piece] = deque()  # not handed out yet
        self.done: Completion | None = None
        self._trace: list[Round] = []
        self._kinds: list[Kind] = []  # by token
        self._sent = 0  # tokens of the output that another engine has sent
        self._shown = 0  # characters in pieces
        self._token = 0  # the token whose text comes next

    @property
    def length(self) -> int:
        """Tokens of prompt and output so far."""
        return len(self.request.prompt) if self.generation is None else len(self.generation.ids)

    def begin(self, g: Generation) -> None:
        """Its state before the first round; what another engine has sent is not sent again."""
        self.generation = g
        self._sent = self._token = len(g.output)
        if isinstance(g.follower, TextFollower):
            self._shown = g.follower.showable()

    def deliver(self, record: Round, at: float) -> None:
        """What a round brought, at this time of the scheduler's clock."""
        self._trace.append(record)
        self._kinds += record.kinds
        parts = self._new_parts()
        self.pieces.append(
            Piece(
                text="".join(text for text, _ in parts),
                tokens=record.tokens,
                kinds=record.kinds,
                parts=parts,
                logprobs=record.logprobs,
                round=record,
                at=at,
            )
        )

    def finish(self, reason: FinishReason, error: ForerunError | None, at: float) -> None:
        """It has ended; its slot is closed."""
        if self.generation is not None:
            self.generation.finish_reason, self.generation.error = reason, error
        self.done = completion(
            self.request,
            self.generation,
            self._trace,
            reason=reason,
            cached_tokens=self.cached_tokens or 0,
            submitted=self.submitted,
            admitted=self.admitted,
            ended=at,
            error=error,
        )

    def _new_parts(self) -> tuple[tuple[str, Kind], ...]:
        """Text that became showable, split by the token that completed it."""
        g = self.generation
        if g is None or not isinstance(g.follower, TextFollower):
            return ()
        follower = g.follower
        upto = len(follower.text) if g.finish_reason is not None else follower.showable()
        parts: list[tuple[str, Kind]] = []
        while self._shown < upto:
            end = min(follower.ends[self._token], upto)
            if self._shown < end:
                kind = self._kinds[self._token - self._sent]
                parts.append((follower.text[self._shown : end], kind))
                self._shown = end
            if end < upto:
                self._token += 1
        return tuple(parts)
