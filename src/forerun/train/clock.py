"""How much of the time that was given is spent, over all starts of a run.

    clock = Clock(folder / "clock.json", minutes=60)
    clock.spent, clock.left          seconds

Each start goes on where the last one was when it last said so on disk, some seconds before it was
killed.

What this module does not know: what the time is spent on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

_EVERY = 5.0  # seconds between notes on disk


class Clock:
    def __init__(
        self, path: Path, minutes: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._now = path, now
        self.given = 60.0 * minutes
        before = float(json.loads(path.read_text())["seconds"]) if path.exists() else 0.0
        self._began = now() - before
        self._noted = before

    @property
    def spent(self) -> float:
        spent = self._now() - self._began
        if spent - self._noted > _EVERY:
            self.note(spent)
        return spent

    @property
    def left(self) -> float:
        return max(self.given - self.spent, 0.0)

    def note(self, spent: float | None = None) -> None:
        self._noted = self._now() - self._began if spent is None else spent
        fresh = self._path.with_suffix(".part")
        fresh.write_text(json.dumps({"seconds": round(self._noted, 1)}))
        fresh.replace(self._path)
