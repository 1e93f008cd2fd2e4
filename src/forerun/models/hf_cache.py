"""Keys and values of all slots, preallocated: a transformers `Cache` that can roll back.

Shapes: C rows, one for each slot there is room for, S positions there is room for, H key heads,
D their width, B steps, N columns, T keys, M tokens really new in the pass.

Each layer owns one tensor `[C, H, S, D]` for keys and one for values; a pass writes its new tokens
in place at `[row of its slot, :, length]` and attends to the first T positions. Sliding-window
layers keep every key too: the window is in the mask, so a rollback across it finds what it needs.
Room grows by half or more, in pages, never by concatenation per step; where memory is short, the
rows move together, and room that no slot needs is given up.

Positions past a slot's length may hold rejected tokens, NaN among them. A mask does not stop NaN
(0 · NaN = NaN), so whatever a pass can reach past a slot's length is set to zero first. Between the
new tokens of one slot in one pass nothing stops it: there a NaN spoils all rows of that slot.

What this module does not know: token ids, masks, what a layer does with its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from forerun.errors import CacheError
from forerun.models.hf_masks import Layout

PAGE = 64  # positions


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """What one layer stores for one position; learned from its first keys and values."""

    heads: int
    key_width: int
    value_width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes(self) -> int:
        return self.heads * (self.key_width + self.value_width) * self.dtype.itemsize


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped
    """One layer's keys and values, [C, H, S, D] each."""

    is_sliding = False

    def __init__(self, owner: SlotCache) -> None:
        super().__init__()
        self.owner = owner
        self.shape: LayerShape | None = None
        self.keys: Any = None
        self.values: Any = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.shape = LayerShape(
            heads=key_states.shape[1],
            key_width=key_states.shape[3],
            value_width=value_states.shape[3],
            dtype=key_states.dtype,
            device=key_states.device,
        )
        self.make_room(self.owner.slots, self.owner.positions)

    def make_room(self, slots: int, positions: int) -> None:
        """Room for `slots` × `positions`, keeping what is there and fits; new room is zero."""
        if (shape := self.shape) is None:
            return
        self.keys, self.values = (
            _grown(old, (slots, shape.heads, positions, width), shape)
            for old, width in ((self.keys, shape.key_width), (self.values, shape.value_width))
        )
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new states [B, H, N, D]; return all of the pass's slots, [B, H, T, D]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        plan = self.owner.plan.on(self.keys.device)
        return plan.store(self.keys, key_states), plan.store(self.values, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.plan.total, 0

    def get_seq_length(self) -> int:
        return self.owner.plan.total - self.owner.plan.width

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:  # its name before transformers 5.2x
        return -1


def _grown(old: torch.Tensor | None, size: tuple[int, ...], shape: LayerShape) -> torch.Tensor:
    new = torch.zeros(size, dtype=shape.dtype, device=shape.device)
    if old is not None:
        kept = old[: size[0], :, : size[2]]
        new[: kept.shape[0], :, : kept.shape[2]] = kept
    return new


def _out_of_memory(error: Exception) -> bool:
    """torch has a class for it on accelerators only; on the CPU it is an error in words."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    )


class Plan:
    """Where one pass writes and reads; made once, used by every layer."""

    def __init__(
        self,
        layout: Layout,
        rows: Sequence[int],
        stale: Sequence[tuple[int, int]],
        device: torch.device,
    ) -> None:
        self.width = layout.width
        self.total = layout.total
        self._layout = layout
        self._rows = tuple(rows)  # of the layout's slots
        self._stale = tuple(stale)
        self._copies: dict[torch.device, Plan] = {device: self}
        new = [
            (b, self.width - count + i, row, start + i)
            for b, (row, start, count) in enumerate(zip(rows, layout.before, layout.counts))
            for i in range(count)
        ]
        self._new_4M = torch.tensor(new, device=device).T
        self._stale_2M = torch.tensor(self._stale, device=device).T if self._stale else None
        self._rows_B = torch.tensor(self._rows, device=device)
        self._first = self._rows[0]
        self._consecutive = self._rows == tuple(range(self._first, self._first + len(rows)))

    def on(self, device: torch.device) -> Plan:
        """The same plan for a layer on another device."""
        if device not in self._copies:
            self._copies[device] = Plan(self._layout, self._rows, self._stale, device)
        return self._copies[device]

    def store(self, cached_CHSD: torch.Tensor, new_BHND: torch.Tensor) -> torch.Tensor:
        """Write the new states where they belong; return [B, H, T, D], a view where possible."""
        if len(self._rows) == 1:
            start = self._layout.before[0]
            cached_CHSD[self._first, :, start : start + self.width] = new_BHND[0]
        else:
            steps, columns, rows, positions = self._new_4M
            cached_CHSD[rows, :, positions] = new_BHND.transpose(1, 2)[steps, columns]
        if self._stale_2M is not None:
            rows, positions = self._stale_2M
            cached_CHSD[rows, :, positions] = 0
        reach = cached_CHSD[:, :, : self.total]
        if self._consecutive:
            return reach[self._first : self._first + len(self._rows)]
        return reach.index_select(0, self._rows_B)


class SlotCache(Cache):  # type: ignore[misc]  # transformers is untyped
    """The caches of all slots.

    layers      how many layers the model has
    shapes      what each stores, where known (else learned in the first pass)
    max_memory  most bytes of keys and values; None: no limit
    context     most positions a slot can have; None: no limit
    """

    def __init__(
        self,
        layers: int,
        *,
        shapes: Sequence[LayerShape | None] = (),
        max_memory: int | None = None,
        context: int | None = None,
    ) -> None:
        super().__init__(layers=[SlotLayer(self) for _ in range(layers)])
        for layer, shape in zip(self.layers, shapes):
            layer.shape = shape
        self.slots = 0
        self.positions = 0
        self.plan: Plan
        self._max_memory = max_memory
        self._context = context
        self._rows: dict[int, int] = {}  # slot -> where it lies in the layers' tensors
        self._written: dict[int, int] = {}  # row -> positions that may hold anything but zero

    @property
    def shapes(self) -> list[LayerShape | None]:
        return [layer.shape for layer in self.layers]

    @property
    def bytes_per_position(self) -> int:
        return sum(shape.bytes for shape in self.shapes if shape is not None)

    @property
    def bytes(self) -> int:
        return self.slots * self.positions * self.bytes_per_position

    def row(self, slot: int) -> int:
        return self._rows[slot]

    def allows(self, slots: int, positions: int) -> bool:
        """Whether `max_memory` has room for `slots` × `positions`."""
        needed = slots * positions * self.bytes_per_position
        return self._max_memory is None or needed <= self._max_memory

    def reserve(self, lengths: Mapping[int, int]) -> None:
        """Make room for open slots of such lengths, all that there are; in all layers or in none.

        CacheError with the figures past `max_memory`, or where torch finds no memory.
        """
        self._rows = {slot: row for slot, row in self._rows.items() if slot in lengths}
        rows = dict(self._rows)
        for slot in lengths:
            if slot not in rows:
                rows[slot] = next(i for i in range(len(lengths)) if i not in rows.values())
        self._make_room(max(rows.values()) + 1, len(rows), max(1, *lengths.values()))
        for slot in rows.keys() - self._rows.keys():
            taken = self._rows.values()
            self._rows[slot] = next(i for i in range(self.slots) if i not in taken)

    def _make_room(self, slots: int, fewest: int, positions: int) -> None:
        """For `slots` rows or, if they have to move together, for the `fewest`."""
        if slots <= self.slots and positions <= self.positions:
            return
        cause: Exception | None = None
        for room in dict.fromkeys((*self._rooms(slots, positions), (fewest, positions))):
            needed = room[0] * room[1] * self.bytes_per_position
            if not self.allows(*room):
                why = f"max_memory is {self._max_memory:,}"
                continue
            try:
                self._move_together(room[0])
                self._grow(*room)
                return
            except Exception as error:
                if not _out_of_memory(error):
                    raise
                why, cause = "there is no memory for that", error
        raise CacheError(
            f"{room[0]} slots of {room[1]} positions need {needed:,} bytes of cache"
            f" ({self.bytes_per_position:,} a position); {why}"
        ) from cause

    def _move_together(self, rows: int) -> None:
        """Bring slots that lie behind the first `rows` rows to free ones among them."""
        for slot, row in self._rows.items():
            if row >= rows:
                free = next(i for i in range(rows) if i not in self._rows.values())
                for layer in self.layers:
                    if layer.is_initialized:
                        layer.keys[free] = layer.keys[row]
                        layer.values[free] = layer.values[row]
                self._written[free] = self._written.get(row, 0)
                self._rows[slot] = free

    def _grow(self, slots: int, positions: int) -> None:
        """One layer after another, so that old and new room stand side by side for one only."""
        grown: list[SlotLayer] = []
        try:
            for layer in self.layers:
                layer.make_room(slots, positions)
                grown.append(layer)
        except BaseException:
            # Back, the last first: it fits where its old room was freed a moment ago. Should
            # another process have taken that, the layer is roomier than it need be, no more.
            with suppress(Exception):
                for layer in reversed(grown):
                    layer.make_room(self.slots, self.positions)
            raise
        self.slots, self.positions = slots, positions

    def _rooms(self, slots: int, positions: int) -> list[tuple[int, int]]:
        """Sizes to try, the roomiest first."""
        many = max(slots, 2 * self.slots) if slots > self.slots else self.slots
        slots, exact = max(slots, self.slots), max(positions, self.positions)
        paged = -(-positions // PAGE) * PAGE
        long = max(paged, self.positions + self.positions // 2 // PAGE * PAGE)
        long = self.positions if positions <= self.positions else long
        if self._context is not None:
            paged, long = min(paged, self._context), min(long, self._context)
        paged, long = max(paged, exact), max(long, exact)
        return [(many, long), (slots, long), (slots, paged), (slots, exact)]

    def begin(self, layout: Layout, device: torch.device) -> None:
        """Prepare for the pass of `layout`; its room must be reserved."""
        rows = [self._rows[slot] for slot in layout.slots]
        stale: list[tuple[int, int]] = []
        for row, end in zip(rows, layout.ends):
            written = self._written.get(row, 0)
            stale += ((row, i) for i in range(end, min(written, layout.total)))
            self._written[row] = max(written, end)
        self.plan = Plan(layout, rows, stale, device)

    def finish(self, layout: Layout) -> None:
        """The pass of `layout` went through: what it could reach past its slots' ends is zero."""
        for slot, end in zip(layout.slots, layout.ends):
            row = self._rows[slot]
            if self._written[row] <= layout.total:
                self._written[row] = end

    def move(self, slot: int, start: int, sources: Sequence[int]) -> None:
        """Bring positions `start + i` for i in `sources` together behind `start`."""
        if list(sources) == list(range(len(sources))):
            return
        row = self._rows[slot]
        for layer in self.layers:
            if layer.is_initialized:
                index = torch.tensor([start + i for i in sources], device=layer.keys.device)
                for cached in (layer.keys, layer.values):
                    cached[row, :, start : start + len(sources)] = cached[row][:, index]

    def save(self, slot: int, start: int, stop: int) -> list[torch.Tensor]:
        """Copies of the keys and values of each layer, [H, S, D] each, where these are."""
        row = self._rows[slot]
        both = [cached for layer in self.layers for cached in (layer.keys, layer.values)]
        try:
            return [cached[row, :, start:stop].clone() for cached in both]
        except Exception as error:
            if not _out_of_memory(error):
                raise
            raise CacheError(f"no memory for a copy of {stop - start} tokens") from error

    def restore(self, slot: int, start: int, count: int, saved: Sequence[torch.Tensor]) -> None:
        """Write the first `count` positions of what `save` gave to `start`, `start` + 1, …"""
        row = self._rows[slot]
        tensors = iter(saved)
        for layer in self.layers:
            for cached in (layer.keys, layer.values):
                cached[row, :, start : start + count] = next(tensors)[:, :count]
        self._written[row] = max(self._written.get(row, 0), start + count)
