"""A graph in C: compiled once into a flat plan; a pass is one call.

    runner = Plan(file, h, threads=2);   runner.reserve(slot, 64);   logits = runner.run(rows)

Matrices are packed into tiles when the plan is made, with the values they have in the file. What is
an input of a packed matrix is kept as 8-bit codes beside the floats; where that happens is the
plan's business, not the graph's.

What this module does not know: which slots are open, how long they are, and who may grow.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forerun.errors import CapabilityError
from forerun.models.gguf import GGUFFile
from forerun.models.native import kernels as c
from forerun.models.native.caches import Caches
from forerun.models.native.dequantise import dequantise
from forerun.models.native.graph import (
    ARCHITECTURES,
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
from forerun.models.native.wanted import Laws, Wanted
from forerun.numerics.choice import Made
from forerun.sampling import SamplingParams

MAX_ROWS = 128  # of one call; more rows take several


def why_not(h: Hyperparameters) -> str | None:
    """Why the kernels cannot run such a model, or None: they can."""
    if h.head_width % c.GROUP:
        return f"its heads are {h.head_width} wide, and the kernels take multiples of {c.GROUP}"
    return None


class Plan:
    """A `rows.Runner` by the C library. Threads and path change nothing but the time it takes.

    `graph` is the architecture's unless given; `packed` are matrices that there are already.
    """

    def __init__(
        self,
        file: GGUFFile,
        h: Hyperparameters,
        *,
        threads: int,
        path: str | None = None,
        max_rows: int = MAX_ROWS,
        graph: Graph | None = None,
        packed: Mapping[str, c.Matrix] | None = None,
    ) -> None:
        if why := why_not(h):
            raise CapabilityError(f"{file.path}: {why}")
        self._lib = c.library()
        self._h, self._max_rows = h, max_rows
        self.path = c.checked_path(path)
        self._path = self.path.encode()
        self._pool = c.Pool.of(threads)
        self.threads = threads
        self._file = file
        self._kept: list[Any] = []  # arrays that the plan points to
        self._matrices = dict(packed or {})
        self._arena = c.Arena()
        self._turns: dict[Rotation, _Turns] = {}
        self._graph = ARCHITECTURES[h.architecture](h) if graph is None else graph
        self._buffers = {name: i for i, name in enumerate(widths(h)) if name != "logits"}
        self._as_codes, self._as_floats = self._inputs(self._graph)
        self._caches = Caches(h.layers, h.kv_heads, h.head_width)
        self._shallow: dict[frozenset[int], _Program] = {}  # by the layers that are left out
        self._whole: _Program
        self.tap(())

    def tap(self, layers: Sequence[int]) -> None:
        self._whole = self._program(tapped(self._graph, layers))
        self.features = np.empty((0, self._whole.features), dtype=np.float32)

    def _program(self, graph: Graph) -> _Program:
        operations = list(self._compiled(graph))
        sizes = np.array([widths(self._h)[name] for name in self._buffers], dtype=np.int32)
        made = self._lib.fr_model_new(
            (c.COperation * len(operations))(*operations),
            len(operations),
            sizes.ctypes.data,
            len(sizes),
            self._max_rows,
            *self._caches.shape,
        )
        if not made:
            raise MemoryError("no memory for the plan's buffers")
        return _Program(self._lib, made, self._h.hidden * sum(isinstance(op, Tap) for op in graph))

    # ------------------------------------------------------------------ compiling

    def _inputs(self, graph: Graph) -> tuple[set[str], set[str]]:
        """Buffers that matrices read as codes, and those they read as floats."""
        readers: list[tuple[str, str]] = []
        for op in graph:
            match op:
                case Linear():
                    readers += [(op.x, weight) for weight, _, _ in op.maps]
                case Gated():
                    readers += [(op.x, op.gate), (op.x, op.up)]
        floats = {x for x, weight in readers if self._kind(weight) in c.FLOAT_TYPES}
        codes = {x for x, weight in readers if self._kind(weight) not in c.FLOAT_TYPES}
        return codes, floats

    def _kind(self, weight: str) -> str:
        return self._file.tensors[weight].type

    def _compiled(self, graph: Graph) -> Iterator[c.COperation]:
        h = self._h
        for i, op in enumerate(graph):
            last = i >= len(graph) - 2  # the last norm and the head: for the wanted rows alone
            match op:
                case Embed():
                    yield self._operation(
                        c.EMBED, None, [op.out], [op.table], width=h.hidden, scale=op.scale
                    )
                case Norm():
                    yield self._operation(
                        c.NORM,
                        op.x,
                        [op.out],
                        flags=(c.ADD * op.add) | (c.CHOSEN * last),
                        width=widths(h)[op.x],
                        epsilon=h.epsilon,
                        weight=self._vector(op.weight),
                    )
                case Linear():
                    for weight, bias, _ in op.maps:
                        if bias is not None:
                            self._matrix(weight).add_bias(self._floats(bias))
                    yield self._operation(
                        c.LINEAR,
                        op.x,
                        [out for _, _, out in op.maps],
                        [weight for weight, _, _ in op.maps],
                        flags=(c.ADD * op.add) | (c.CHOSEN * last),
                    )
                case Gated():
                    yield self._operation(
                        c.GATED,
                        op.x,
                        [op.out],
                        [op.gate, op.up],
                        flags=c.GELU * (op.activation == "gelu"),
                    )
                case Attend():
                    yield from self._attention(op)
                case Feed():
                    yield self._operation(c.FEED, None, [op.out], width=h.hidden)
                case Tap():
                    yield self._operation(
                        c.TAP,
                        op.x,
                        (),
                        layer=op.part,
                        width=h.hidden,
                        epsilon=h.epsilon,
                        weight=self._vector(op.weight),
                    )

    def _attention(self, op: Attend) -> Iterator[c.COperation]:
        h = self._h
        turns = self._turns.get(op.rotation)
        if turns is None:
            turns = self._turns[op.rotation] = _Turns(self._frequencies(op.rotation), h.context)
        heads: dict[str, Any] = {
            "layer": op.layer,
            "heads": h.heads,
            "kv_heads": h.kv_heads,
            "head_width": h.head_width,
        }
        yield self._operation(
            c.ROTATE,
            op.q,
            [op.q, op.k, op.v],
            flags=c.INTERLEAVED * op.rotation.interleaved,
            turned=op.rotation.width,
            epsilon=h.epsilon,
            scale=op.scale,
            weight=self._vector(op.q_norm),
            k_weight=self._vector(op.k_norm),
            table=turns.table.ctypes.data,
            **heads,
        )
        yield self._operation(c.ATTEND, op.q, [op.out], window=op.window or 0, **heads)

    def _operation(
        self,
        kind: int,
        x: str | None,
        outs: Sequence[str],
        weights: Sequence[str] = (),
        *,
        flags: int = 0,
        **fields: Any,
    ) -> c.COperation:
        out = [self._buffers.get(name, -1) for name in outs]
        if kind not in (c.LINEAR, c.ROTATE, c.TAP):
            flags |= c.QUANTISE * (outs[0] in self._as_codes)
            flags |= c.FLOATS * (outs[0] in self._as_floats)
        matrices = [ctypes.addressof(self._matrix(name).c) for name in weights]
        return c.COperation(
            kind=kind,
            flags=flags,
            input=0 if x is None else self._buffers[x],
            out=(ctypes.c_int32 * 3)(*out),
            maps=len(weights),
            matrix=(ctypes.c_void_p * 3)(*matrices),
            **fields,
        )

    def _matrix(self, name: str) -> c.Matrix:
        if name not in self._matrices:
            tensor = self._file.tensors[name]
            rows, width = tensor.shape
            blocks = self._file.data(name)
            self._matrices[name] = c.Matrix.packed(
                tensor.type, rows, width, blocks, self._pool, self._arena
            )
        return self._matrices[name]

    def _floats(self, name: str) -> Any:
        return dequantise(self._file.data(name), self._kind(name))

    def _vector(self, name: str | None) -> int | None:
        if name is None:
            return None
        values = np.ascontiguousarray(self._floats(name), dtype=np.float32)
        self._kept.append(values)
        return int(values.ctypes.data)

    def _frequencies(self, rotation: Rotation) -> Any:
        named = rotation.factors
        return rotation.frequencies(
            None if named is None else self._floats(named).astype(np.float64)
        )

    def packed(self, name: str) -> c.Matrix:
        """A matrix as the kernels have it."""
        return self._matrix(name)

    @property
    def matrices(self) -> Mapping[str, c.Matrix]:
        """All of them, by the tensors' names."""
        return self._matrices

    # ------------------------------------------------------------------ caches

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed matrices."""
        return sum(matrix.size for matrix in self._matrices.values())

    @property
    def bytes_per_cell(self) -> int:
        return self._caches.page_bytes // c.PAGE

    def cells(self, slot: int) -> int:
        return self._caches.cells(slot)

    def reserve(self, slot: int, cells: int) -> None:
        """Whole pages; what is left over is freed. See `rows.Runner`."""
        room = self._caches.reserve(slot, cells)
        for turns in self._turns.values():
            turns.fill(room)

    def move(self, slot: int, before: int, path: Sequence[int]) -> None:
        self._caches.move(slot, before, path)

    def save(self, slot: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        return self._caches.save(slot, start, stop)

    def restore(self, slot: int, start: int, count: int, saved: np.ndarray[Any, Any]) -> None:
        self._caches.restore(slot, start, count, saved)

    # ------------------------------------------------------------------ a pass

    def run(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.float32]]:
        logits = self._logits(rows)
        self.features = self._calls(self._whole, rows, Wanted(logits=logits))
        return logits

    def skim(self, rows: Rows, skipped: frozenset[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        if skipped not in self._shallow:
            self._shallow[skipped] = self._program(skipping(self._graph, skipped))
        logits = self._logits(rows)
        self._calls(self._shallow[skipped], rows, Wanted(logits=logits))
        return logits

    def choose(self, rows: Rows, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """As `run`, but of each wanted row only the id of the largest of the first `size` logits,
        the first of equals; or a negative number, as `fused.checked` reads it. Logits are not kept.
        """
        choices = np.empty(len(rows.wanted), dtype=np.int64)
        self.features = self._calls(self._whole, rows, Wanted(choices=choices, size=size))
        return choices

    def laws(self, rows: Rows, params: Sequence[SamplingParams], size: int) -> list[Made]:
        """As `run`, but of each wanted row the law of its first `size` logits, by its `params`."""
        laws = Laws(params, size)
        wanted = Wanted(logits=self._logits(rows), laws=laws, size=size)
        self.features = self._calls(self._whole, rows, wanted)
        return laws.made()

    def times(self, name: str, x: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
        return self._matrix(name).times(x, self._pool, self.path)

    def _logits(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.empty((len(rows.wanted), self._h.vocabulary), dtype=np.float32)

    def _calls(self, program: _Program, rows: Rows, into: Wanted) -> Any:
        """Features of the rows; what is wanted of them goes `into` there."""
        features = np.empty((len(rows), program.features), dtype=np.float32)
        for start in range(0, len(rows), self._max_rows):
            end = min(start + self._max_rows, len(rows))
            first, wanted = 0, rows.wanted
            if end - start < len(rows):
                first, last = np.searchsorted(wanted, (start, end))
                wanted = wanted[first:last] - np.int32(start)
            tokens, positions, slots, cells, shared, path_start, path = rows.addresses(start)
            given = c.CPass(
                rows=end - start,
                wanted=len(wanted),
                tokens=tokens,
                positions=positions,
                slot=slots,
                cells=cells,
                shared=shared,
                path_start=path_start,
                path=path,
                wanted_rows=wanted.ctypes.data,
                pages=self._caches.tables,
                logits_stride=self._h.vocabulary,
                features=features[start:].ctypes.data,
                features_stride=program.features,
                feed=None if rows.feed is None else rows.feed[start:].ctypes.data,
                feed_stride=self._h.hidden,
                **into.fields(int(first)),
            )
            if self._lib.fr_run(self._pool.address, program.address, self._path, given):
                raise MemoryError("no memory for a pass")
        return features


class _Program:
    """A compiled graph that hands out `features` values of each row; freed when it is dropped."""

    def __init__(self, library: Any, address: int, features: int) -> None:
        self.address, self.features = address, features
        weakref.finalize(self, library.fr_model_free, address)


class _Turns:
    """Cosines and sines by position, float32 from float64; filled as far as caches reach."""

    def __init__(self, frequencies: Any, context: int) -> None:
        self._frequencies = frequencies
        # np.empty takes no memory before it is written
        self.table = np.empty((context + c.PAGE, 2 * len(frequencies)), dtype=np.float32)
        self._filled = 0

    def fill(self, positions: int) -> None:
        positions = min(positions, len(self.table))
        if positions <= self._filled:
            return
        angles = np.outer(np.arange(self._filled, positions), self._frequencies)
        half = len(self._frequencies)
        self.table[self._filled : positions, :half] = np.cos(angles)
        self.table[self._filled : positions, half:] = np.sin(angles)
        self._filled = positions
