"""What answers requests, as the server sees it: an engine of this process, or others elsewhere.

What this module does not know: HTTP, what is asked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from forerun.engine import Completion, Engine, Piece, Prompt
from forerun.errors import OptionError
from forerun.openai.endpoint import fingerprint
from forerun.openai.responses import Setup
from forerun.server.answers import Answers, in_thread
from forerun.server.metrics import Metrics
from forerun.server.setup import setup
from forerun.server.workers import Workers
from forerun.text.tokenizer import Tokenizer

GRAMMARS, GRAMMARS_WAITING = 2, 64  # read at once, and behind those


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What holds as long as a backend runs. Can be pickled."""

    tokenizer: Tokenizer
    vocab_size: int
    eos: frozenset[int]
    context: int | None
    setup: Setup

    @classmethod
    def of(cls, engine: Engine, name: str) -> Facts:
        """`name` is what the model is called. OptionError for a model without a tokenizer."""
        target = engine.target
        if target.tokenizer is None:
            raise OptionError(f"{target.name} has no tokenizer: a server needs one")
        return cls(
            tokenizer=target.tokenizer,
            vocab_size=target.vocab_size,
            eos=target.eos,
            context=target.context,
            setup=setup(engine, name),
        )


class Asked(Protocol):
    """The answers of one request; see `Answers`."""

    @property
    def maker(self) -> str:
        """What computes them: a seeded text is the same where this is. Known once they are
        submitted; it grows where another goes on."""
        ...

    async def submit(
        self, prompts: Sequence[Prompt], n: int, options: dict[str, Any], fields: Sequence[str]
    ) -> None: ...

    def progress(self) -> AsyncIterator[tuple[int, Piece | Completion]]: ...

    async def finished(self) -> list[Completion]: ...

    def cancel(self) -> None: ...

    async def __aenter__(self) -> Asked: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None: ...


class Backend(Protocol):
    """Where answers come from."""

    @property
    def facts(self) -> Facts: ...

    def status(self) -> Any:
        """Counts of this moment, those of the engine's `Status` that are known."""
        ...

    def answers(
        self, metrics: Metrics, *, tenant: str, arrived: float, timeout: float
    ) -> Asked: ...

    def start(self) -> None: ...

    async def close(self) -> None: ...


class EngineBackend:
    """An engine of this process."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.facts = Facts.of(engine, name)
        self._maker = fingerprint(engine)
        self._workers = Workers(GRAMMARS, GRAMMARS_WAITING)

    def status(self) -> Any:
        return self._engine.status()

    def answers(self, metrics: Metrics, *, tenant: str, arrived: float, timeout: float) -> Answers:
        return Answers(
            self._engine,
            metrics,
            tenant=tenant,
            arrived=arrived,
            timeout=timeout,
            maker=self._maker,
            workers=self._workers,
        )

    def start(self) -> None:
        """Its thread takes the turns from now on."""
        self._engine.start()

    async def close(self) -> None:
        await in_thread(self._engine.close)
