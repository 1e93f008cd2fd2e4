"""The rows of one pass over several slots, as flat arrays: what both runners take.

Shapes: R rows, one for each new token; W wanted rows; P cells in all lists of paths.

A slot's cache is a line of cells, one for each token in the order they were given. Cell and
position differ within a tree: a row's position is its depth in the text. The cells a row sees are,
in order of position, 0 … shared − 1 and then its own list, which ends with its own cell:

    slot holds 2 tokens; step tokens (a b c d), parents (-1 0 0 2)

    row          a     b     c      d                  x y ── a ── b
    cell         2     3     4      5                         └─── c ── d
    position     2     3     3      4
    shared       3     4     3      3
    path_cells   -     -     4      4 5

The list is empty as long as a path runs through one cell after another; for a chain always. A row
sees position + 1 cells; the last w of them if there is a window of w.

What this module does not know: models, and how keys are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, Protocol

import numpy as np

from forerun.models.base import Step

Int32 = np.ndarray[Any, np.dtype[np.int32]]
Floats = np.ndarray[Any, np.dtype[np.float32]]


class Rows:
    """One pass. Rows of a step stand together, in the order of the steps.

    All numbers lie one array behind another in `block`, in the order of the lists given, so that C
    needs one address only.
    """

    def __init__(
        self,
        *,
        tokens: Sequence[int],
        positions: Sequence[int],
        slots: Sequence[int],
        cells: Sequence[int],
        shared: Sequence[int],
        path_start: Sequence[int],
        path_cells: Sequence[int],
        wanted: Sequence[int],
        feed: Floats | None = None,
    ) -> None:
        lists = (tokens, positions, slots, cells, shared, path_start, path_cells, wanted)
        self.block: Int32 = np.array([*chain.from_iterable(lists)], dtype=np.int32)
        *self._starts, end = accumulate(map(len, lists), initial=0)
        views = [self.block[i:j] for i, j in pairwise([*self._starts, end])]
        self.tokens, self.positions, self.slots = views[:3]  # [R]
        self.cells = views[3]  # [R] where the row's key and value go
        self.shared = views[4]  # [R] leading cells of the slot that the row sees
        self.path_start = views[5]  # [R + 1] row r's list is path_cells[start[r] : start[r + 1]]
        self.path_cells = views[6]  # [P]
        self.wanted = views[7]  # [W] rows whose logits come back
        self.feed = feed  # [R, width] for a graph that is fed

    def __len__(self) -> int:
        return len(self.tokens)

    def addresses(self, row: int = 0) -> list[int]:
        """Of what the arrays say of `row` on, in their order; of the cells of paths all."""
        at = self.block.ctypes.data
        *of_rows, path_cells, _ = self._starts
        return [*(at + 4 * (start + row) for start in of_rows), at + 4 * path_cells]

    def visible(self, row: int) -> Int32:
        """The cells `row` sees, in order of position: position + 1 of them."""
        path = self.path_cells[self.path_start[row] : self.path_start[row + 1]]
        return np.concatenate([np.arange(self.shared[row], dtype=np.int32), path])


def lay_out(steps: Sequence[Step], lengths: Sequence[int]) -> Rows:
    """The rows of `steps`, which are checked; `lengths[i]`: tokens in the slot of step i.

    A step's logits are its last `step.wanted` rows, so `wanted` is those of the first step, then
    those of the second, …
    """
    tokens: list[int] = []
    slots: list[int] = []
    cells: list[int] = []
    shared: list[int] = []
    positions: list[int] = []
    path_start: list[int] = [0]
    path_cells: list[int] = []
    wanted: list[int] = []
    for step, before in zip(steps, lengths, strict=True):
        count = len(step.tokens)
        end = before + count
        tokens += step.tokens
        slots += [step.slot] * count
        cells += range(before, end)
        if step.parents is None:
            shared += range(before + 1, end + 1)
            positions += range(before, end)
            path_start += [len(path_cells)] * count
        else:
            for seen, path in _paths(step.parents, before):
                shared.append(seen)
                positions.append(seen + len(path) - 1)
                path_cells += path
                path_start.append(len(path_cells))
        wanted += range(len(tokens) - step.wanted, len(tokens))
    return Rows(
        tokens=tokens,
        slots=slots,
        cells=cells,
        positions=positions,
        shared=shared,
        path_start=path_start,
        path_cells=path_cells,
        wanted=wanted,
        feed=_fed([step.feed for step in steps if len(step.tokens)]),
    )


def _paths(parents: Sequence[int], before: int) -> list[tuple[int, tuple[int, ...]]]:
    """For each token of a tree: leading cells it sees, and the other cells of its path."""
    paths: list[tuple[int, tuple[int, ...]]] = []
    for cell, parent in enumerate(parents, before):
        shared, path = paths[parent] if parent >= 0 else (before, ())
        on = not path and cell == shared  # the path goes on from one cell to the next
        paths.append((shared + 1, ()) if on else (shared, (*path, cell)))
    return paths


def _fed(given: Sequence[Any]) -> Floats | None:
    if not given or given[0] is None:
        return None
    return np.concatenate(given).astype(np.float32, copy=False)


class Runner(Protocol):
    """A graph with its weights, and the caches of its slots. `NativeModel` sits on either one.

    Slots are small numbers; which are open, how long they are and what they may cost is not known
    here. Cells that no row of a pass sees may hold anything.
    """

    @property
    def bytes_per_cell(self) -> int:
        """What one token takes in a cache."""
        ...

    def cells(self, slot: int) -> int:
        """Cells the slot has room for; 0 for one that has no cache."""
        ...

    def reserve(self, slot: int, cells: int) -> None:
        """Make room for exactly `cells`, keeping what is there and fits; 0 frees the cache.

        MemoryError where there is none; then nothing changed.
        """
        ...

    def tap(self, layers: Sequence[int]) -> None:
        """From now on a pass leaves what stands behind `layers` in `features`: [R, their width]."""
        ...

    @property
    def features(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Of the last pass, the caller's own."""
        ...

    def run(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.float32]]:
        """One pass: caches each row's key and value, returns logits [W, V], the caller's own.

        All cells must be reserved. A row's bits do not depend on the other rows.
        """
        ...

    def times(self, name: str, x: Floats) -> Floats:
        """[n, out]: a matrix of the file's applied to x [n, in], whatever the graph does with it.
        A row's bits do not depend on the other rows."""
        ...

    def skim(self, rows: Rows, skipped: frozenset[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """As `run` without these layers, for which nothing is cached; `features` stay the same."""
        ...

    def move(self, slot: int, before: int, path: Sequence[int]) -> None:
        """Bring cells `before + i` for i in `path`, which rises, together behind `before`."""
        ...

    def save(self, slot: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        """A copy of what cells start … stop − 1 hold, whatever its shape and type."""
        ...

    def restore(self, slot: int, start: int, count: int, saved: np.ndarray[Any, Any]) -> None:
        """Write the first `count` cells of what `save` gave to cells start, start + 1, …"""
        ...
