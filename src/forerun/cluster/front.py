"""The server's app as a deployment: HTTP on one side, calls of replicas on the other.

What this module does not know: what is done with a call (`relay.py`), where replicas are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from ray import exceptions, serve
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RequestCancelledError,
)

from forerun.cluster.calls import Call, Item, Told
from forerun.cluster.relay import LostError, Relay
from forerun.openai.errors import ApiError, overloaded
from forerun.server import ServerConfig, logging_lines
from forerun.server.app import serving
from forerun.server.metrics import Metrics

GONE = (
    exceptions.RayActorError,  # it died, or cannot be reached
    exceptions.WorkerCrashedError,
    exceptions.ObjectLostError,
    exceptions.TaskCancelledError,
    RequestCancelledError,
)
PAUSE = 0.2  # seconds between looks for a replica of the new model


class Replicas:
    """The server's backend: replicas behind a handle of Ray Serve."""

    def __init__(self, handle: Any, told: Told, *, share_prefixes: bool) -> None:
        self._handle = handle.options(stream=True)
        self._own, self.facts = told.maker, told.facts
        self._share = share_prefixes
        self._relays = WeakSet[Relay]()

    def status(self) -> Any:
        """Choices that are with replicas, as far as this front knows."""
        under_way = [sent for relay in self._relays for sent in relay.sent]
        return SimpleNamespace(running=sum(not sent.watch.ended for sent in under_way))

    def answers(self, metrics: Metrics, *, tenant: str, arrived: float, timeout: float) -> Relay:
        relay = Relay(
            lambda call: Answer(self._handle, call),
            metrics,
            self._own,
            tenant="" if self._share else tenant,
            arrived=arrived,
            timeout=timeout,
        )
        self._relays.add(relay)
        return relay

    def start(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Answer:
    """What a replica says to a call, over Ray."""

    def __init__(self, handle: Any, call: Call) -> None:
        self._said = handle.answer.remote(call)

    async def __aiter__(self) -> AsyncIterator[Item]:
        try:
            async for item in self._said:
                yield item
        except GONE as error:
            raise LostError(str(error)) from error
        except BackPressureError:
            raise overloaded("so many requests wait that no more may: try again later") from None
        except DeploymentUnavailableError:
            raise ApiError(503, "no replica could be started") from None

    def cancel(self) -> None:
        self._said.cancel()


@serve.ingress()
class Front:
    """A deployment. `config.models[0]` is the model's name, `model` its digest, `command` a name
    of the command that deploys it."""

    async def __init__(  # type: ignore[misc]
        self,
        handle: Any,
        model: str,
        command: str,
        config: ServerConfig,
        *,
        share_prefixes: bool,
        log_file: Path | None,
        log_level: int,
    ) -> None:
        while (told := await handle.told.remote()).maker.model != model:
            await asyncio.sleep(PAUSE)  # of the model before: the new one is on its way
        self._command, self._config = command, config
        self._replicas = Replicas(handle, told, share_prefixes=share_prefixes)
        self._log = logging_lines(log_file, texts=config.log_prompts, level=log_level)
        self._log.__enter__()

    def command(self) -> str:
        """Who has deployed it."""
        return self._command

    def __serve_build_asgi_app__(self) -> Any:
        return serving(self._replicas, self._config)
