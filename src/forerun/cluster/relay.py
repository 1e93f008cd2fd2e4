"""The answers of one request, whoever of the replicas writes them.

    call ──> replica A ──> ids, text … ──> †
                 └ what came is kept: ids, log-probabilities, rounds
    what is left of the call, behind those ids ──> replica B ──> …

What was sent stays; nothing is sent twice, and nothing is written anew and skipped. So what a
client gets has the target's law, and a greedy or seeded text is the one that a single process
writes, wherever it was cut (`engine/resume.py` says why). A seed under a verifier whose text hangs
on its rounds cannot go on: a stream ends in an error there; an answer of which its client has seen
nothing begins anew, and is the same text.

A request whose replicas die LIVES times is given up: it may be what kills them.

What this module does not know: Ray, how a replica is chosen, that it died rather than left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from forerun.cluster.calls import Begun, Call, Item, Maker, Refused
from forerun.engine import Completion, Piece, Prompt, Resume
from forerun.numerics.logprobs import TokenLogprob
from forerun.openai.errors import ApiError, overloaded
from forerun.server.metrics import Metrics, Watch
from forerun.trace import Round

log = logging.getLogger("forerun.server")

LIVES = 4
GRACE = 5.0  # seconds that a replica has to say that time is up
BREATH = 0.5  # seconds before a replica that has no room is asked again


class LostError(Exception):
    """Who was asked is gone, or going."""


class Source(Protocol):
    """What a replica says to a call. LostError where it ends before all is said; ApiError where
    nobody takes the call."""

    def __aiter__(self) -> AsyncIterator[Item]: ...

    def cancel(self) -> None:
        """Nobody listens any more."""
        ...


@dataclass
class Sent:
    """A choice so far."""

    watch: Watch
    seed: int = 0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] | None = None
    rounds: list[Round] = field(default_factory=list)
    done: bool = False

    def add(self, piece: Piece) -> Piece:
        """By this process's clock: that of a replica may be another machine's."""
        piece = replace(piece, at=time.monotonic())
        self.tokens += piece.tokens
        self.rounds.append(piece.round)
        if piece.logprobs is not None:
            self.logprobs = [*(self.logprobs or ()), *piece.logprobs]
        self.watch.piece(piece)
        return piece

    def end(self, done: Completion) -> Completion:
        """The whole, of all that wrote it."""
        late = time.monotonic() - done.ended
        self.done = True
        done = replace(
            done,
            trace=tuple(self.rounds),
            submitted=done.submitted + late,
            admitted=None if done.admitted is None else done.admitted + late,
            ended=done.ended + late,
        )
        self.watch.end(done)
        return done

    def left(self, choice: int, lost: int) -> Resume:
        """What a replica needs to go on, after so many were lost."""
        return Resume(
            output=tuple(self.tokens),
            choice=choice,
            seed=self.seed,
            epoch=lost if self.tokens else 0,  # of what nobody saw nothing was spent
            logprobs=self.logprobs,
        )


class Relay:
    """As `Answers`, through `ask`. `maker` is the front's own: another vocabulary is refused."""

    def __init__(
        self,
        ask: Callable[[Call], Source],
        metrics: Metrics,
        own: Maker,
        *,
        tenant: str,
        arrived: float,
        timeout: float,
    ) -> None:
        self._ask, self._metrics, self._own = ask, metrics, own
        self._tenant, self._arrived = tenant, arrived
        self._timeout, self._end = timeout, arrived + timeout
        self._source: Source | None = None
        self._items: AsyncIterator[Item] | None = None
        self._makers: list[Maker] = []
        self._lost = 0
        self._shown = False  # whether a client may have seen something
        self.sent: list[Sent] = []

    @property
    def maker(self) -> str:
        """Of all that wrote a part."""
        return "+".join(dict.fromkeys(maker.path for maker in self._makers))

    async def submit(
        self, prompts: Sequence[Prompt], n: int, options: dict[str, Any], fields: Sequence[str]
    ) -> None:
        """A replica has taken it. ApiError for what it refuses."""
        self._call = Call(
            prompts=prompts, n=n, options=options, fields=fields, tenant=self._tenant,
            seconds=self._timeout,
        )  # fmt: skip
        self.sent = [Sent(self._metrics.watch(self._arrived)) for _ in range(len(prompts) * n)]
        try:
            await self._begin()
        except BaseException:  # its client has left, maybe
            self.cancel()
            raise

    async def progress(self) -> AsyncIterator[tuple[int, Piece | Completion]]:
        """As `Answers.progress`, for a client that sees it as it comes."""
        self._shown = True
        async for each in self._progress():
            yield each

    async def finished(self) -> list[Completion]:
        """All choices, in order."""
        whole = {number: piece async for number, piece in self._progress()}
        return [done for _, done in sorted(whole.items()) if isinstance(done, Completion)]

    def cancel(self) -> None:
        if self._source is not None and not all(sent.done for sent in self.sent):
            self._source.cancel()
        self._source = None
        for sent in self.sent:
            sent.watch.leave()

    async def __aenter__(self) -> Relay:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.cancel()

    # ------------------------------------------------------------------ parts

    async def _progress(self) -> AsyncIterator[tuple[int, Piece | Completion]]:
        while not all(sent.done for sent in self.sent):
            try:
                item = await self._next()
            except LostError:
                await self._begin(lost=True)
                continue
            if isinstance(item, tuple):
                number, piece = item
                sent = self.sent[number]
                yield number, sent.add(piece) if isinstance(piece, Piece) else sent.end(piece)

    async def _begin(self, *, lost: bool = False) -> None:
        """Ask, until a replica has taken what is left."""
        while True:
            if lost:
                self._lose()
            self._source = self._ask(self._rest())
            self._items = aiter(self._source)
            try:
                begun = await self._next()
            except LostError:
                lost = True
                continue
            except ApiError as error:
                if not self._makers:  # the request is new, and its client may be told
                    raise
                lost = False
                await self._bear(error)
                continue
            assert isinstance(begun, Begun)
            self._meet(begun)
            return

    def _rest(self) -> Call:
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise self._late()
        left = {
            number: sent.left(number % self._call.n, self._lost)
            for number, sent in enumerate(self.sent)
            if not sent.done
        }
        return replace(self._call, seconds=seconds, left=left if self._makers else None)

    async def _next(self) -> Item:
        """LostError; ApiError for a refusal, or where time is up."""
        assert self._items is not None
        try:
            async with asyncio.timeout(max(self._end - time.monotonic(), 0) + GRACE):
                item = await anext(self._items)
        except TimeoutError:
            raise self._late() from None
        except StopAsyncIteration:
            raise LostError from None
        if isinstance(item, Refused):
            if item.status == 503:  # it goes down
                raise LostError
            raise self._late() if item.status == 408 else item.error
        return item

    def _lose(self) -> None:
        self._lost += 1
        written = sum(len(sent.tokens) for sent in self.sent)
        fields = {"times": self._lost, "tokens": written}
        log.warning("replica_lost", extra={"fields": fields})
        if self._source is not None:
            self._source.cancel()  # should it not be dead after all
        if self._lost == LIVES:
            raise ApiError(500, f"{LIVES} replicas died while they wrote this answer: given up")

    async def _bear(self, error: ApiError) -> None:
        """A replica will not go on with what another began."""
        if error.status == 429:
            await asyncio.sleep(BREATH)
            return
        unseen = not self._shown and any(sent.tokens for sent in self.sent if not sent.done)
        if error.status != 400 or not unseen:
            raise ApiError(500, f"a replica died, and {error.message}") from error
        for sent in self.sent:  # nobody saw it: the same text again, from its beginning
            if not sent.done:
                sent.tokens, sent.rounds, sent.logprobs = [], [], None

    def _meet(self, begun: Begun) -> None:
        maker = begun.maker
        if maker.vocabulary != self._own.vocabulary:
            raise overloaded("the model is being changed for one with other tokens: ask again")
        if self._makers and maker.model != self._makers[0].model:
            if any(sent.tokens for sent in self.sent):
                raise ApiError(503, "the model was changed while it wrote this answer: ask again")
            self._makers = []
        if self._makers and maker.path != self._makers[-1].path:
            fields = {"before": self._makers[-1].path, "now": maker.path}
            log.warning("path_changed", extra={"fields": fields})
        self._makers.append(maker)
        for number, seed in begun.seeds.items():
            self.sent[number].seed = seed

    def _late(self) -> ApiError:
        error = ApiError(408, f"the time limit of {self._timeout:g} s is over")
        error.headers["x-should-retry"] = "false"
        return error
