"""Hidden states behind some layers, of each slot's last tokens: what heads on a model read.

    width = model.tap([8, 15, 30])      # of each pass from now on, behind so many layers
    model.extend([Step(slot=slot, tokens=(5, 9, 2))])
    model.keep(slot, 2)
    model.features(slot)                # [2, width], of 5 and 9

A feature is a row: behind 0 layers the embedding, behind all of them the state after the last norm,
which the output matrix reads; several stand one after another, as asked. (As transformers counts
them in `hidden_states`.)

What this module does not know: how a backend gets at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forerun.errors import CapabilityError, OptionError
from forerun.sampling import is_whole


class Features:
    """Of each slot, the features of its last step's tokens, as far as it keeps those.

    `hidden` values in a state of a model of `layers` layers.
    """

    def __init__(self, hidden: int, layers: int) -> None:
        self._hidden, self._most = hidden, layers
        self.layers: tuple[int, ...] = ()
        self._rows: dict[int, tuple[int, Any]] = {}  # by slot: the first one's position, and rows

    @property
    def width(self) -> int:
        return self._hidden * len(self.layers)

    def tap(self, layers: Sequence[int]) -> bool:
        """See `Model`; whether it changed anything."""
        wanted = tuple(layers)
        if bad := [n for n in wanted if not is_whole(n) or not 0 <= n <= self._most]:
            raise OptionError(f"features are behind 0 to {self._most} layers, not {bad[0]!r}")
        if wanted == self.layers:
            return False
        if wanted and self.layers:
            raise CapabilityError(
                f"features behind {self.layers} layers are in use, and of {wanted} were asked for;"
                " two heads that read other layers cannot share a model"
            )
        self.layers = wanted
        self._rows.clear()
        return True

    def record(self, slot: int, start: int, rows: Any) -> None:
        """A step's tokens, from position `start` on, have these features."""
        if self.layers:
            self._rows[slot] = (start, rows)

    def keep(self, slot: int, length: int, path: Sequence[int] | None) -> None:
        if slot in self._rows:
            start, rows = self._rows[slot]
            kept = rows[: max(length - start, 0)] if path is None else rows[list(path)]
            self._rows[slot] = (start, kept)

    def forget(self, slot: int) -> None:
        self._rows.pop(slot, None)

    def of(self, slot: int) -> Any:
        """[n, width], float32."""
        if slot not in self._rows:
            return np.empty((0, self.width), dtype=np.float32)
        return self._rows[slot][1]
