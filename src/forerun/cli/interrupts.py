"""Ctrl-C while an answer is written: once ends the answer, twice leaves.

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
    """`pressed` is whether Ctrl-C came since it was entered."""

    def __init__(self) -> None:
        self.pressed = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            self._before = signal.SIG_IGN  # nothing is to disturb the leaving
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise SystemExit(INTERRUPTED)
        self.pressed = True
