"""Hidden states of texts, on disk: what a head reads, and what tells the target's law.

    states.f16     row after row, of text after text:  [tapped layers … , last state]   float16

    text 0, of 5 ids:   rows 0 … 3       the last id's own state is no head's input, nor tells a
    text 1, of 3 ids:   rows 4 … 5       law that would be needed
    …

A pass of the target over the whole of each text gives them. The file is only ever appended to; what
a kill left of a text's rows is cut off when it is opened again.

What this module does not know: which of the rows are answers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Model, Step
from forerun.train.texts import Text

States = np.ndarray[Any, np.dtype[np.float16]]
_LARGEST = 65504.0  # of float16


def rows_of(text: Text) -> int:
    return max(len(text.ids) - 1, 0)


@dataclass(frozen=True, kw_only=True)
class Taps:
    """Which layers are read, of a model of `layers`; the last state stands behind them, once."""

    chosen: tuple[int, ...]
    layers: int
    hidden: int

    @property
    def asked(self) -> tuple[int, ...]:
        return self.chosen if self.chosen[-1] == self.layers else (*self.chosen, self.layers)

    @property
    def width(self) -> int:
        """Values in a row."""
        return self.hidden * len(self.asked)

    @property
    def read(self) -> int:
        """Values of a row that a head reads, from its beginning on."""
        return self.hidden * len(self.chosen)


class StateFile:
    """States of the first texts of a list of texts, as far as they were computed."""

    def __init__(self, path: Path, taps: Taps) -> None:
        self._path, self._taps = path, taps

    def compute(
        self,
        model: Model,
        texts: Sequence[Text],
        *,
        stopping: Callable[[], bool] = lambda: False,
        watch: Callable[[int], None] = lambda rows: None,
    ) -> int:
        """Append the states of the texts that have none yet; how many texts have theirs then.

        `watch` gets the rows computed so far. CapabilityError where the model hands out no states,
        OptionError where there is no room for them on the disk.
        """
        if not model.abilities.features:
            raise CapabilityError(f"{model.name} hands out no hidden states")
        tapped: Any = model
        done, size = self._whole(texts)
        if self._path.exists():
            os.truncate(self._path, size)
        self._check_room(texts[done:])
        tapped.tap(self._taps.asked)
        try:
            rows = 0
            with self._path.open("ab") as file:
                for text in texts[done:]:
                    if stopping():
                        break
                    file.write(self._states(model, text).tobytes())
                    done, rows = done + 1, rows + rows_of(text)
                    watch(rows)
        finally:
            tapped.tap(())
        return done

    def read(self, texts: Sequence[Text]) -> tuple[States, list[int]]:
        """A view of all rows [N, width], and where each text's begin; of those that have theirs."""
        done, size = self._whole(texts)
        starts = np.cumsum([0, *map(rows_of, texts[:done])]).tolist()
        shape = (size // (2 * self._taps.width), self._taps.width)
        if not shape[0]:
            return np.empty(shape, np.float16), starts[:-1]
        return np.memmap(self._path, np.float16, "r", shape=shape), starts[:-1]

    def _check_room(self, texts: Sequence[Text]) -> None:
        """OptionError where the disk has no room for the states of so many texts."""
        needed = 2 * self._taps.width * sum(map(rows_of, texts))
        free = shutil.disk_usage(self._path.parent).free
        if needed > free:
            raise OptionError(
                f"the states of {len(texts)} texts take {needed / 1e9:.1f} GB, and where "
                f"{self._path.name} goes {free / 1e9:.1f} GB are free: make room, or give fewer "
                "--layers"
            )

    def _whole(self, texts: Sequence[Text]) -> tuple[int, int]:
        """How many texts have all of their rows, and the bytes of those."""
        there = self._path.stat().st_size if self._path.exists() else 0
        done = size = 0
        for text in texts:
            more = 2 * self._taps.width * rows_of(text)
            if size + more > there:
                break
            done, size = done + 1, size + more
        return done, size

    def _states(self, model: Any, text: Text) -> States:
        slot = model.open()
        try:
            model.extend([Step(slot=slot, tokens=text.ids[:-1], rows=0)])
            found = model.features(slot)
        finally:
            model.close(slot)
        if not np.isfinite(found).all():
            raise OptionError(f"{model.name} has states that are no numbers, in text {text.name}")
        states: States = np.clip(found, -_LARGEST, _LARGEST).astype(np.float16)
        return states
