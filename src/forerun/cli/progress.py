"""How far a batch is: a bar with tokens/s, acceptance and time left; in the end, a line."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from forerun.cli.screen import Screen
from forerun.cli.values import counted

if TYPE_CHECKING:
    from forerun.batch.run import Tally

LOOKS, WINDOW = 0.2, 15.0  # seconds between looks; over which a speed is taken


class Progress:
    """On a terminal a bar on standard error; elsewhere nothing until `summary`.

    `total` lines of which `before` had their record at the start.
    """

    def __init__(self, screen: Screen, total: int, before: int) -> None:
        self._screen, self._total, self._before = screen, total, before
        self._bar: Any = None
        self._began = time.monotonic()
        self._looks: deque[tuple[float, int]] = deque([(self._began, 0)])

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        if self._screen.err_styled:
            self._bar = _bar(self._screen)
            self._task = self._bar.add_task("", total=self._total, completed=self._before, more="")
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, tally: Tally) -> None:
        """Called often; draws now and then."""
        now = time.monotonic()
        if self._bar is None or now - self._looks[-1][0] < LOOKS:
            return
        self._looks.append((now, tally.tokens))
        while now - self._looks[0][0] > WINDOW and len(self._looks) > 2:
            self._looks.popleft()
        (then, before), rest = self._looks[0], _acceptance(tally)
        more = f"{(tally.tokens - before) / max(now - then, LOOKS):.0f} tokens/s · {rest}"
        self._bar.update(self._task, completed=self._before + tally.lines, more=more)

    def summary(self, tally: Tally) -> str:
        """Of this start."""
        seconds = time.monotonic() - self._began
        parts = [f"{counted(tally.lines, 'line')} in {seconds:.1f} s"]
        parts.append(f"{counted(tally.tokens, 'token')}, {tally.tokens / seconds:.1f} a second")
        parts.append(_acceptance(tally))
        if tally.failed:
            parts.append(counted(tally.failed, "error"))
        return " · ".join(parts)


def _acceptance(tally: Tally) -> str:
    if not tally.drafted:
        return "nothing drafted"
    return f"acceptance {tally.accepted / tally.drafted:.0%}"


def _bar(screen: Screen) -> Any:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[more]}"),
        TimeRemainingColumn(),
        console=screen.console(),
        transient=True,
    )
