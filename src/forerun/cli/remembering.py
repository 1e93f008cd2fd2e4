"""--memory FILE: what suffix drafters learn is kept, and there again the next time.

The file is read before the first request. It is written at the end, and every so often in between
by a thread of its own, where anything is new. What goes wrong then is told, and costs no answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from forerun.cli.options import Settings
from forerun.cli.screen import Screen
from forerun.cli.values import counted
from forerun.drafters.memory_file import Vocabulary, memories, read, write
from forerun.drafters.text_memory import TextMemory
from forerun.engine import Engine

log = logging.getLogger("forerun")

EVERY = 60.0  # seconds


@contextmanager
def remembering(settings: Settings, engine: Engine | None) -> Iterator[None]:
    """Around all that the engine does; nothing where nothing is to be kept."""
    held = memories(engine.drafter) if engine is not None else []
    if settings.memory is None or not held or engine is None:
        yield
        return
    vocabulary = Vocabulary.of(engine.target)
    found = read(settings.memory, vocabulary, held)
    if found.aside is not None:
        Screen().error(
            f"--memory {settings.memory} is damaged: it is set aside as {found.aside}, and nothing "
            "is remembered"
        )
    log.info("--memory %s: %s", settings.memory, counted(found.texts, "text"))
    keeper = Keeper(settings, vocabulary, held[0])
    keeper.start()
    try:
        yield
    finally:
        keeper.end()


class Keeper(threading.Thread):
    """Writes a memory, now and then and at the end."""

    def __init__(
        self, settings: Settings, vocabulary: Vocabulary, memory: TextMemory, every: float = EVERY
    ) -> None:
        super().__init__(name="forerun-memory", daemon=True)
        assert settings.memory is not None
        self._path, self._vocabulary, self._memory = settings.memory, vocabulary, memory
        self._every, self._over = every, threading.Event()
        self._written = memory.changes

    def run(self) -> None:
        while not self._over.wait(self._every):
            self._keep()

    def end(self) -> None:
        self._over.set()
        self.join()
        self._keep()

    def _keep(self) -> None:
        if (changes := self._memory.changes) == self._written:
            return
        try:
            write(self._path, self._vocabulary, self._memory)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            Screen().error(f"--memory {self._path} cannot be written: {reason}")
            return
        self._written = changes
