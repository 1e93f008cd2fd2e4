"""An engine that answers calls, in a process of its own.

What this module does not know: who starts it, who calls, what becomes of a call when it dies.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from forerun.cluster.calls import Begun, Call, Item, Maker, Refused, Told, vocabulary
from forerun.engine import Completion, Engine, Prompt, Resume, Status
from forerun.errors import ReplicaError
from forerun.openai.endpoint import fingerprint
from forerun.openai.errors import ApiError
from forerun.server.answers import Answers
from forerun.server.backend import GRAMMARS, GRAMMARS_WAITING, Facts
from forerun.server.metrics import Metrics
from forerun.server.workers import Workers

STUCK = 120.0  # seconds in which an engine with work must have taken a turn


class EngineReplica:
    """An engine with its thread.

    make    the engine
    model   digest of the model's file and of how it is computed, as this machine finds it
    wanted  the same, as the driver found it: ReplicaError for another
    name    what the model is called
    """

    def __init__(
        self, make: Callable[[], Engine], model: Callable[[], str], wanted: str, name: str
    ) -> None:
        if model() != wanted:
            raise ReplicaError(
                "a replica's model or forerun is not that of the command: have the same files at "
                "the same paths on every machine"
            )
        self._engine = make()
        self._engine.start()
        self._workers = Workers(GRAMMARS, GRAMMARS_WAITING)
        self._metrics = Metrics(self._engine.status)
        facts = Facts.of(self._engine, name)
        self._told = Told(
            maker=Maker(
                path=fingerprint(self._engine),
                model=wanted,
                vocabulary=vocabulary(facts.tokenizer),
            ),
            facts=facts,
        )
        self._turns, self._moved = 0, time.monotonic()

    def told(self) -> Told:
        return self._told

    def status(self) -> Status:
        return self._engine.status()

    async def answer(self, call: Call) -> AsyncIterator[Item]:
        """Who stops listening ends it."""
        answers = _Answers(
            call.left,
            self._engine,
            self._metrics,
            tenant=call.tenant,
            arrived=time.monotonic(),
            timeout=call.seconds,
            workers=self._workers,
        )
        async with answers:
            try:
                await answers.submit(call.prompts, call.n, dict(call.options), call.fields)
                numbers = answers.numbers
                seeds = {number: s.seed for number, s in zip(numbers, answers.streams)}
                yield Begun(maker=self._told.maker, seeds=seeds)
                async for place, piece in answers.progress():
                    if isinstance(piece, Completion):
                        piece = replace(piece, trace=())  # pieces had it
                    yield numbers[place], piece
            except ApiError as error:
                yield Refused.of(error)

    def check_health(self) -> None:
        """ReplicaError for an engine that has work and does nothing."""
        status, now = self.status(), time.monotonic()
        idle = not (status.running or status.reading or status.waiting)
        if idle or status.turns != self._turns:
            self._turns, self._moved = status.turns, now
        elif now - self._moved > STUCK:
            raise ReplicaError(f"the engine has taken no turn for {now - self._moved:.0f} s")

    def close(self) -> None:
        """End the engine and what it writes."""
        self._engine.close()


class _Answers(Answers):
    """As those of a server; or those of choices that others began. `numbers` names them."""

    def __init__(self, left: Mapping[int, Resume] | None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._left_to_do = left

    @property
    def numbers(self) -> Sequence[int]:
        return list(self._left_to_do or range(len(self.streams)))

    def _queue(
        self, prompts: Sequence[Prompt], n: int, deadline: float, options: dict[str, Any]
    ) -> None:
        if self._left_to_do is None:
            return super()._queue(prompts, n, deadline, options)
        for number, resume in self._left_to_do.items():
            super()._queue([prompts[number // n]], 1, deadline, {**options, "resume": resume})
