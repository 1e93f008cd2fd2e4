"""Ctrl-C while answers are written: once ends them, twice leaves.

The first is a flag that is looked at between rounds, so that model and drafter stay in step with
the text. The second raises SystemExit(130) wherever it strikes. Outside of `with Interrupts()`
Ctrl-C is Python's KeyboardInterrupt, which `main` turns into the same exit code.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

INTERRUPTED = 130  # 128 + SIGINT, as shells count


class Interrupts:
    """`pressed` is whether Ctrl-C, or another of these signals, came since it was entered."""

    def __init__(self, *signals: signal.Signals) -> None:
        self.pressed = False
        self._signals = signals or (signal.SIGINT,)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {one: signal.signal(one, self._handle) for one in self._signals}
        return self

    def __exit__(self, *error: object) -> None:
        for one, before in self._before.items():
            signal.signal(one, before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            for one in self._signals:  # nothing is to disturb the leaving
                self._before[one] = signal.SIG_IGN
                signal.signal(one, signal.SIG_IGN)
            raise SystemExit(INTERRUPTED)
        self.pressed = True
