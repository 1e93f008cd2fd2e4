"""Slots' caches in C: pages of PAGE positions, each with the keys and values of all layers as half
floats.

What this module does not know: which slots are open, how long they are, and who may grow.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from forerun.models.native import kernels as c


class Caches:
    """`shape`: layers, heads of keys, values of a head. See `rows.Runner`."""

    def __init__(self, layers: int, heads: int, width: int) -> None:
        self._lib = c.library()
        self.shape = (layers, heads, width)
        self.page_bytes = int(self._lib.fr_page_bytes(*self.shape))
        self._pages: dict[int, list[c.Memory]] = {}
        self._tables: dict[int, Any] = {}  # slot -> addresses of its pages, as C sees them
        self._by_slot = (ctypes.c_void_p * 1)()  # the tables' own addresses

    def cells(self, slot: int) -> int:
        return len(self._pages.get(slot, ())) * c.PAGE

    def reserve(self, slot: int, cells: int) -> int:
        """Whole pages of room for `cells`, and how many cells those have; the rest is freed."""
        held = self._pages.get(slot, [])
        count = -(-cells // c.PAGE)
        more = [c.Memory(self.page_bytes) for _ in range(count - len(held))]
        if count == 0:
            self._pages.pop(slot, None)
            self._tables.pop(slot, None)
            return 0
        pages = self._pages[slot] = [*held[:count], *more]
        table = self._tables[slot] = (ctypes.c_void_p * count)(*(page.address for page in pages))
        if slot >= len(self._by_slot):
            self._by_slot = (ctypes.c_void_p * (2 * slot))(*self._by_slot)
        self._by_slot[slot] = ctypes.addressof(table)
        return count * c.PAGE

    @property
    def tables(self) -> int:
        """The address of the addresses of slots' pages, slot after slot, as a pass takes them."""
        return ctypes.addressof(self._by_slot)

    def move(self, slot: int, before: int, path: Sequence[int]) -> None:
        for i, index in enumerate(path):
            if i != index:
                self._lib.fr_move(self._tables[slot], *self.shape, before + index, before + i)

    def save(self, slot: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        layers, heads, width = self.shape
        saved = np.empty((layers, heads, 2, stop - start, width), dtype=np.uint16)
        self._copy(slot, start, stop - start, saved, back=False)
        return saved

    def restore(self, slot: int, start: int, count: int, saved: np.ndarray[Any, Any]) -> None:
        self._copy(slot, start, count, saved, back=True)

    def _copy(self, slot: int, first: int, count: int, saved: Any, *, back: bool) -> None:
        table, room = self._tables[slot], saved.shape[3]
        self._lib.fr_cells(table, *self.shape, first, count, saved.ctypes.data, room, back)
