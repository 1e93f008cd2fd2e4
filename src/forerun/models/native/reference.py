"""A graph in NumPy, one row after another: the slow way to run it, and the tests' reference.

    runner = Reference(file, h);   runner.reserve(slot, 64);   logits = runner.run(rows)

Weights are the file's values as float32, or float64 where tests ask for it. Each row goes through
matrix–vector products of its own, over its cells in order of position; so its bits depend neither
on its company nor on the tree it sits in, as far as BLAS repeats itself for one shape.

Memory: matrices are kept dequantised, in the graph's order, while they take less than `memory`
bytes together; the rest are dequantised anew for each pass that needs them.

What this module does not know: which slots are open, how long they are, and who may grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from forerun.models.gguf import GGUFFile
from forerun.models.native.dequantise import dequantise
from forerun.models.native.graph import (
    ARCHITECTURES,
    Activation,
    Attend,
    Embed,
    Feed,
    Gated,
    Graph,
    Hyperparameters,
    Linear,
    Norm,
    Rotation,
    Tap,
    skipping,
    tapped,
    widths,
)
from forerun.models.native.rows import Rows

Array = np.ndarray[Any, np.dtype[Any]]

MEMORY = 4 << 30  # bytes of dequantised matrices


class Weights:
    """A file's tensors as floats, dequantised when they are needed or once and for all."""

    def __init__(self, file: GGUFFile, dtype: type[np.floating[Any]], memory: int) -> None:
        self._file, self._dtype, self._left = file, dtype, memory
        self._kept: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        """A matrix [out, in] or a vector."""
        if name in self._kept:
            return self._kept[name]
        tensor = self._file.tensors[name]
        values = self._floats(self._file.data(name), tensor.type).reshape(tensor.shape)
        if len(tensor.shape) == 1:
            self._kept[name] = values
        elif values.nbytes <= self._left:
            self._kept[name] = values
            self._left -= values.nbytes
        return values

    def row(self, name: str, i: int) -> Array:
        """One row of a table, of which no more is dequantised."""
        tensor = self._file.tensors[name]
        return self._floats(self._file.data(name).reshape(tensor.shape[0], -1)[i], tensor.type)

    def _floats(self, raw: Any, kind: str) -> Array:
        return dequantise(raw, kind).astype(self._dtype, copy=False)


class Reference:
    """A `rows.Runner`. `dtype` is that of all arithmetic, of caches and logits; `graph` is the
    architecture's unless given."""

    def __init__(
        self,
        file: GGUFFile,
        h: Hyperparameters,
        *,
        dtype: type[np.floating[Any]] = np.float32,
        memory: int = MEMORY,
        graph: Graph | None = None,
    ) -> None:
        self._h, self._dtype = h, dtype
        self._untapped = ARCHITECTURES[h.architecture](h) if graph is None else graph
        self._graph: Graph
        self.tap(())
        self.features = np.empty((0, 0), dtype=np.float32)
        self._weights = Weights(file, dtype, memory)
        self._widths = widths(h)
        self._caches: dict[int, Array] = {}  # slot -> [keys and values, layers, heads, cells, D]
        self._frequencies = {
            op.rotation: self._turning(op.rotation) for op in self._graph if isinstance(op, Attend)
        }

    def tap(self, layers: Sequence[int]) -> None:
        self._graph = tapped(self._untapped, layers)
        self._parts = sum(isinstance(op, Tap) for op in self._graph)

    @property
    def bytes_per_cell(self) -> int:
        h = self._h
        return 2 * h.layers * h.kv_heads * h.head_width * np.dtype(self._dtype).itemsize

    def cells(self, slot: int) -> int:
        return self._caches[slot].shape[3] if slot in self._caches else 0

    def reserve(self, slot: int, cells: int) -> None:
        old = self._caches.get(slot)
        if cells == 0:
            self._caches.pop(slot, None)
            return
        h = self._h
        new = np.zeros((2, h.layers, h.kv_heads, cells, h.head_width), dtype=self._dtype)
        if old is not None:
            new[..., : old.shape[3], :] = old[..., :cells, :]
        self._caches[slot] = new

    def move(self, slot: int, before: int, path: Sequence[int]) -> None:
        cache = self._caches[slot]
        cells = np.array(path, dtype=np.int64) + before
        cache[..., before : before + len(path), :] = cache[..., cells, :]

    def save(self, slot: int, start: int, stop: int) -> Array:
        return self._caches[slot][..., start:stop, :].copy()

    def restore(self, slot: int, start: int, count: int, saved: Array) -> None:
        self._caches[slot][..., start : start + count, :] = saved[..., :count, :]

    def run(self, rows: Rows) -> Array:
        """Logits [W, V] of one pass, in the runner's dtype."""
        logits, self.features = self._run(self._graph, rows)
        return logits

    def skim(self, rows: Rows, skipped: frozenset[int]) -> Array:
        return self._run(skipping(self._untapped, skipped), rows)[0]

    def _run(self, graph: Graph, rows: Rows) -> tuple[Array, Array]:
        """Logits, and features."""
        buffers = {
            name: np.empty((len(rows), width), dtype=self._dtype)
            for name, width in self._widths.items()
            if name != "logits"
        }
        angles = {
            rotation: np.outer(rows.positions, frequencies)
            for rotation, frequencies in self._frequencies.items()
        }
        logits = np.empty((len(rows.wanted), self._h.vocabulary), dtype=self._dtype)
        parts = np.empty((len(rows), self._parts, self._h.hidden), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # a law says what is wrong with it
            for op in graph:
                match op:
                    case Embed():
                        for r, token in enumerate(rows.tokens):
                            row = self._weights.row(op.table, token)
                            buffers[op.out][r] = self._dtype(op.scale) * row
                    case Norm():
                        self._norm(op, buffers[op.x], buffers[op.out])
                    case Linear() if op.maps[0][2] == "logits":
                        self._linear(op, buffers[op.x][rows.wanted], {"logits": logits})
                    case Linear():
                        self._linear(op, buffers[op.x], buffers)
                    case Attend():
                        self._attend(op, rows, angles[op.rotation], buffers)
                    case Gated():
                        self._gate(op, buffers[op.x], buffers[op.out])
                    case Feed():
                        buffers[op.out][:] = rows.feed
                    case Tap():
                        self._hand_out(op, buffers[op.x], parts[:, op.part])
        return logits, parts.reshape(len(rows), -1)

    def times(self, name: str, x: Array) -> Array:
        matrix = self._weights[name]
        found = np.empty((len(x), len(matrix)), dtype=np.float32)
        for row, out in zip(x.astype(self._dtype), found):
            out[:] = matrix @ row
        return found

    def _hand_out(self, op: Tap, x_RI: Array, out_RI: Array) -> None:
        if op.weight is None:
            out_RI[:] = x_RI
            return
        for x, out in zip(x_RI, out_RI):
            out[:] = _normed(x, self._weights[op.weight], self._h.epsilon)

    def _norm(self, op: Norm, x_RI: Array, out_RI: Array) -> None:
        weight = self._weights[op.weight]
        for x, out in zip(x_RI, out_RI):
            normed = _normed(x, weight, self._h.epsilon)
            out[:] = out + normed if op.add else normed

    def _linear(self, op: Linear, x_RI: Array, buffers: dict[str, Array]) -> None:
        if not len(x_RI):
            return
        for name, bias, to in op.maps:
            matrix = self._weights[name]
            for x, out in zip(x_RI, buffers[to]):
                y = matrix @ x
                if bias is not None:
                    y += self._weights[bias]
                out[:] = out + y if op.add else y

    def _gate(self, op: Gated, x_RI: Array, out_RO: Array) -> None:
        gate, up = self._weights[op.gate], self._weights[op.up]
        for x, out in zip(x_RI, out_RO):
            out[:] = _activated(gate @ x, op.activation) * (up @ x)

    def _attend(self, op: Attend, rows: Rows, angles: Array, buffers: dict[str, Array]) -> None:
        h = self._h
        cos, sin = (f(angles).astype(self._dtype) for f in (np.cos, np.sin))
        scale = self._dtype(op.scale)
        for r, (slot, cell, seen) in enumerate(_seen(rows, op.window)):
            q = self._head_values(buffers[op.q][r], op.q_norm)
            k = self._head_values(buffers[op.k][r], op.k_norm)
            keys, values = self._caches[slot][:, op.layer]
            keys[:, cell] = _turned(k, cos[r], sin[r], op.rotation)
            values[:, cell] = buffers[op.v][r].reshape(h.kv_heads, h.head_width)
            # each key's head serves a group of queries' heads
            q = _turned(q, cos[r], sin[r], op.rotation).reshape(h.kv_heads, -1, h.head_width)
            scores = scale * (q @ _cells(keys, seen).swapaxes(1, 2))
            weights = np.exp(scores - scores.max(axis=2, keepdims=True))
            weights /= weights.sum(axis=2, keepdims=True)
            buffers[op.out][r] = (weights @ _cells(values, seen)).reshape(-1)

    def _head_values(self, x: Array, norm: str | None) -> Array:
        heads = x.reshape(-1, self._h.head_width)
        if norm is None:
            return heads
        return np.stack([_normed(head, self._weights[norm], self._h.epsilon) for head in heads])

    def _turning(self, rotation: Rotation) -> Array:
        named = rotation.factors
        factors = None if named is None else self._weights[named].astype(np.float64)
        return rotation.frequencies(factors)


def _seen(rows: Rows, window: int | None) -> Iterator[tuple[int, int, Any]]:
    """For each row its slot, its cell, and an index of the cells it sees, in order of position."""
    for r in range(len(rows)):
        first = 0 if window is None else max(int(rows.positions[r]) + 1 - window, 0)
        shared = int(rows.shared[r])
        chain = shared > rows.positions[r]
        yield (
            int(rows.slots[r]),
            int(rows.cells[r]),
            slice(first, shared) if chain else rows.visible(r)[first:],
        )


def _cells(cached_HSD: Array, seen: Any) -> Array:
    """Of each head the cells seen, laid out alike whether they stand together or not."""
    return cached_HSD[:, seen] if isinstance(seen, slice) else cached_HSD.take(seen, axis=1)


def _normed(x: Array, weight: Array, epsilon: float) -> Array:
    mean_square = (x @ x) / x.dtype.type(len(x))
    normed: Array = x / np.sqrt(mean_square + x.dtype.type(epsilon)) * weight
    return normed


def _turned(x_HD: Array, cos: Array, sin: Array, rotation: Rotation) -> Array:
    """Each head's pairs, turned by their angles."""
    half = rotation.width // 2
    one, other = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if rotation.interleaved
        else (slice(0, half), slice(half, 2 * half))
    )
    turned = x_HD.copy()
    turned[:, one] = x_HD[:, one] * cos - x_HD[:, other] * sin
    turned[:, other] = x_HD[:, one] * sin + x_HD[:, other] * cos
    return turned


def _activated(x: Array, activation: Activation) -> Array:
    number = x.dtype.type
    activated: Array
    if activation == "silu":
        activated = x / (number(1) + np.exp(-x))
    else:
        inner = number(np.sqrt(2 / np.pi)) * (x + number(0.044715) * x * x * x)
        activated = number(0.5) * x * (number(1) + np.tanh(inner))
    return activated
