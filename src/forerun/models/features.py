"""Hidden states behind some layers, of all tokens that a slot holds: what heads on a model read.

    width = model.tap([8, 15, 30])      # of each pass from now on, behind so many layers
    model.extend([Step(slot=slot, tokens=(5, 9, 2))])
    model.keep(slot, 2)
    model.features(slot)                # [2, width], of 5 and 9

A feature is a row: behind 0 layers the embedding, behind all of them the state after the last norm,
which the output matrix reads; several stand one after another, as asked. (As transformers counts
them in `hidden_states`.) They are kept as keys and values are: what the slot drops they lose, what
is saved they are saved with.

What this module does not know: how a backend gets at them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forerun.errors import CapabilityError, OptionError
from forerun.sampling import is_whole

Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A model's embeddings [V, hidden], padding included.

    `data` are the bytes of a tensor of type `kind`; `packed` is the same for the kernels, where
    there is such a copy already.
    """

    kind: str
    shape: tuple[int, ...]
    data: np.ndarray[Any, np.dtype[np.uint8]]
    packed: Any = None


def fingerprint(last_norm: Any, tokenizer: Any) -> str:
    """By what a head knows its target again: the weights of its last norm, which quantised copies
    of a model share and further training changes, and its tokens. "" for what is not known."""
    weights = "" if last_norm is None else _digest(np.asarray(last_norm, np.float32).tobytes())
    names = None if tokenizer is None else repr(tokenizer._names).encode()
    return f"{weights}/{'' if names is None else _digest(names)}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class _Rows:
    """Features by position: of `known` on, up to `stop`. `start`: where the last step began."""

    def __init__(self, known: int, width: int) -> None:
        self.known = self.start = self.stop = known
        self._rows = np.empty((0, width), dtype=np.float32)

    def append(self, rows: Floats) -> None:
        self.start, self.stop = self.stop, self.stop + len(rows)
        if (need := self.stop - self.known) > len(self._rows):
            room = np.zeros((max(need, 2 * len(self._rows)), rows.shape[1]), dtype=np.float32)
            room[: self.start - self.known] = self._rows[: self.start - self.known]
            self._rows = room
        self._rows[self.start - self.known : need] = rows

    def keep(self, length: int, path: Sequence[int] | None) -> None:
        if path is not None and any(i != index for i, index in enumerate(path)):
            at = self.start - self.known
            self._rows[at : at + len(path)] = self._rows[[at + i for i in path]]
        self.stop = length
        self.known = min(self.known, length)

    def of(self, start: int, stop: int) -> Floats:
        return self._rows[max(start - self.known, 0) : max(stop - self.known, 0)]


class Features:
    """Of each slot, the features of the tokens it holds.

    `hidden` values in a state of a model of `most` layers; `layers` are those tapped.
    """

    def __init__(self, hidden: int, most: int) -> None:
        self.hidden, self.most = hidden, most
        self.layers: tuple[int, ...] = ()
        self._slots: dict[int, _Rows] = {}

    @property
    def width(self) -> int:
        return self.hidden * len(self.layers)

    @property
    def nbytes(self) -> int:
        """What one token's take."""
        return 4 * self.width

    def tap(self, layers: Sequence[int]) -> bool:
        """See `Tapped`; whether it changed anything."""
        wanted = tuple(layers)
        if bad := [n for n in wanted if not is_whole(n) or not 0 <= n <= self.most]:
            raise OptionError(f"features are behind 0 to {self.most} layers, not {bad[0]!r}")
        if wanted == self.layers:
            return False
        if wanted and self.layers:
            raise CapabilityError(
                f"features behind {self.layers} layers are in use, and of {wanted} were asked for;"
                " two heads that read other layers cannot share a model"
            )
        self.layers = wanted
        self._slots.clear()
        return True

    def record(self, slot: int, start: int, rows: Any) -> None:
        """A step's tokens, from position `start` on, have these features."""
        if not self.layers:
            return
        held = self._slots.get(slot)
        if held is None or held.stop != start:  # of tokens before it was tapped nothing is known
            held = self._slots[slot] = _Rows(start, self.width)
        held.append(rows)

    def keep(self, slot: int, length: int, path: Sequence[int] | None) -> None:
        if slot in self._slots:
            self._slots[slot].keep(length, path)

    def forget(self, slot: int) -> None:
        self._slots.pop(slot, None)

    def of(self, slot: int, start: int = 0) -> Floats:
        """[n, width], float32, of the tokens from position `start` on; of the last n of them."""
        if slot not in self._slots:
            return np.empty((0, self.width), dtype=np.float32)
        held = self._slots[slot]
        return held.of(start, held.stop)

    def save(self, slot: int, start: int, stop: int) -> Floats:
        """A copy of those of positions start … stop − 1; empty where one of them is not known."""
        held = self._slots.get(slot)
        if held is None or held.known > start:
            return np.empty((0, self.width), dtype=np.float32)
        return held.of(start, stop).copy()

    def restore(self, slot: int, start: int, count: int, saved: Any) -> None:
        """The slot got `count` tokens from position `start` on back, of which these were saved."""
        if count > len(saved):
            self.forget(slot)
        elif count:
            self.record(slot, start, saved[:count])


class Featured:
    """What models with `Features` share of `Tapped`."""

    _features: Features

    def length(self, slot: int) -> int:
        raise NotImplementedError

    @property
    def layers(self) -> int:
        return self._features.most

    @property
    def hidden(self) -> int:
        return self._features.hidden

    def tap(self, layers: Sequence[int]) -> int:
        self._features.tap(layers)
        return self._features.width

    def features(self, slot: int, start: int = 0) -> Any:
        self.length(slot)
        return self._features.of(slot, start)
