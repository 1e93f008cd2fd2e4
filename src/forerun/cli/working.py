"""A spinner, and a bar while something is fetched; gone when it is over."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class Working:
    """Spins with `what` beside it; `fetched(done, total)` turns it into a bar until it is full."""

    def __init__(self, what: str, console: Console) -> None:
        self._console = console
        self._spinner = console.status(what)
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Working:
        self._spinner.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._spinner.stop()
        if self._bar is not None:
            self._bar.stop()

    def fetched(self, done: int, total: int) -> None:
        if self._bar is None and done < total:
            self._spinner.stop()
            self._bar = bar(self._console)
            self._task = self._bar.add_task("fetching", total=total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
            if done >= total:
                self._bar.stop()
                self._bar = None
                self._spinner.start()


def bar(console: Console) -> Progress:
    """A bar that counts bytes."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
