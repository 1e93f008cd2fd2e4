"""A front and its replicas in one process, and deaths at will."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from forerun import Engine
from forerun.cluster.calls import Call, Item, Maker, Refused
from forerun.cluster.relay import LostError, Relay
from forerun.cluster.replica import EngineReplica
from forerun.openai.errors import ApiError
from forerun.server.metrics import Metrics


@contextmanager
def replica(
    engines: Sequence[Engine], paths: Sequence[str] = (), models: Sequence[str] = ()
) -> Iterator[list[EngineReplica]]:
    """One for each engine; with these makers, as far as they are named."""
    found = []
    for i, engine in enumerate(engines):
        model = models[i] if i < len(models) else "model"
        made = EngineReplica(lambda e=engine: e, lambda m=model: m, model, "tiny")
        if i < len(paths):
            made._told = replace(made._told, maker=replace(made._told.maker, path=paths[i]))
        found.append(made)
    try:
        yield found
    finally:
        for one in found:
            one.close()


class Says:
    """A call's answer by one replica, which dies after `after` items; None: it does not."""

    def __init__(self, source: AsyncIterator[Item], after: int | None) -> None:
        self._source, self._after = source, after

    async def __aiter__(self) -> AsyncIterator[Item]:
        count = 0
        try:
            while count != self._after:
                try:
                    item = await anext(self._source)
                except StopAsyncIteration:
                    return
                yield item
                count += 1
            raise LostError
        finally:
            await self._close()

    def cancel(self) -> None:
        self._closing = asyncio.ensure_future(self._close())

    async def _close(self) -> None:
        with suppress(RuntimeError):  # it is just being asked
            await self._source.aclose()  # type: ignore[attr-defined]


class Refuses:
    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def __aiter__(self) -> AsyncIterator[Item]:
        yield Refused.of(self._error)

    def cancel(self) -> None:
        pass


class Front:
    """Asks its replicas in turn. By the number of the call: `losses`, the items after which a
    replica dies, and `says`, errors in the place of an answer."""

    def __init__(
        self,
        replicas: Sequence[EngineReplica],
        losses: Sequence[int | None] = (),
        says: Mapping[int, ApiError] | None = None,
        own: Maker | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.replicas, self._losses, self._says = replicas, list(losses), says or {}
        self._own = replicas[0].told().maker if own is None else own
        self._timeout = timeout
        self.calls: list[Call] = []
        self.metrics = Metrics(lambda: None)
        self._asked = 0

    def relay(self, metrics: Metrics | None = None, **terms: Any) -> Relay:
        usual = {"tenant": "", "arrived": time.monotonic(), "timeout": self._timeout}
        return Relay(self.ask, metrics or self.metrics, self._own, **{**usual, **terms})

    def ask(self, call: Call) -> Any:
        number = len(self.calls)
        self.calls.append(call)
        if number in self._says:
            return Refuses(self._says[number])
        one = self.replicas[self._asked % len(self.replicas)]
        self._asked += 1
        return Says(one.answer(call), self._losses.pop(0) if self._losses else None)
