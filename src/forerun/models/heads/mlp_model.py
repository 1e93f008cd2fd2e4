"""Heads without attention behind slots, as `HeadModel` is: see `mlp_checkpoint.py` for the forms.

A pair's feature is all that a head will read of it and of what is drafted behind it:

    feature of the target's state      f | 0 | 0 | … | depth 0
    what comes out beside token t      f | t | 0 | … | depth 1      the feature for what is drafted
    …                                  f | t | x | … | depth 2      behind it

so that no slot needs a cache, and a draft may branch. Behind `depths` tokens there is no law left:
logits are −inf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forerun import clib
from forerun.errors import CapabilityError
from forerun.models.base import Abilities, Pages, Step
from forerun.models.cores import usable_cores
from forerun.models.features import Features, Floats
from forerun.models.heads.fit import check_fit, check_same
from forerun.models.heads.mlp_checkpoint import MLPHead
from forerun.models.native import kernels as c
from forerun.models.native.dequantise import dequantise
from forerun.models.native.quantise import BLOCK, q8_0
from forerun.models.slots import Slots


class MLPHeadModel:
    """See above; what it raises, `HeadModel` says.

    kernels  None: the best there are; "numpy"
    exact    weights as they are in the checkpoint, not in 8 bits; with "numpy" in float64
    """

    def __init__(
        self,
        head: MLPHead,
        target: Any,
        *,
        threads: int | None = None,
        kernels: str | None = None,
        exact: bool = False,
    ) -> None:
        config = head.config
        self.head = head
        self.file, self.name = head.path, head.path.name
        self.ids, self.depths = head.ids, config.depths
        check_fit(self.name, config, int(self.ids.max()), target)
        table = target.embeddings()
        self._fingerprint = target.fingerprint
        self.taps = config.taps
        self.vocab_size, self.readable = config.draft_vocabulary, table.shape[0]
        self.tokenizer, self.eos = None, frozenset[int]()
        self.context: int | None = None
        self.abilities = Abilities(pages=False, features=True)
        self._width = (config.depths + 1) * config.hidden + 1
        self._features = Features(self._width, 1)
        self._features.tap((1,))
        self._slots = Slots()
        threads = threads or getattr(target, "threads", None) or usable_cores()
        if kernels is None and clib.why_missing() is not None:
            kernels = "numpy"
        self.path = "numpy" if kernels == "numpy" else c.checked_path(kernels)
        self._table = table
        self._norm = head["norm.weight"]
        matrices = {name: values for name, values in head.tensors.items() if values.ndim == 2}
        self._matrices = _Matrices(matrices, self.path, threads, exact)

    def fit(self, target: Any) -> Any:
        """See `HeadModel`."""
        highest = int(self.ids.max())
        check_same(self.name, self.head.config, highest, self._fingerprint, target)
        return target

    # ------------------------------------------------------------------ slots

    @property
    def cache_bytes(self) -> int:
        return 0

    def open(self) -> int:
        return self._slots.open(lambda wanted: None)

    def close(self, slot: int) -> None:
        self._slots.close(slot)
        self._features.forget(slot)

    def length(self, slot: int) -> int:
        return self._slots.length(slot)

    def keep(self, slot: int, length: int, path: Sequence[int] | None = None) -> None:
        self._slots.before(slot, length, path)
        self._features.keep(slot, length, path)
        self._slots.settle(slot, length)

    def fits(self, lengths: Sequence[int]) -> bool:
        return True

    def save(self, slot: int, start: int, stop: int) -> Pages:
        raise CapabilityError(f"{self.name} caches nothing")

    def restore(self, slot: int, pages: Pages, count: int) -> None:
        raise CapabilityError(f"{self.name} caches nothing")

    def features(self, slot: int, start: int = 0) -> Floats:
        self.length(slot)
        return self._features.of(slot, start)

    # ------------------------------------------------------------------ passes

    def feature(self, states: Any) -> Floats:
        """Of the target's last states [n, h], what is read beside the tokens that came next."""
        found = np.zeros((len(states), self._width), dtype=np.float32)
        found[:, : self.head.config.hidden] = _unit(states, self.head.config.epsilon)
        return found

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        """Logits [wanted, D], float32, −inf where no head is left. Pairs without a feature, whose
        time alone is asked for, get zeros."""
        for step in steps:
            self._slots.check(step, self.context, self.readable)
        found = []
        for step in steps:
            feed = step.feed
            if feed is None:
                feed = np.zeros((len(step.tokens), self._width), dtype=np.float32)
            rows = self._behind(feed, step.tokens)
            self._features.record(step.slot, self.length(step.slot), rows)
            self._slots.record(step)
            found.append(rows[len(rows) - step.wanted :])
        together = self._logits(np.concatenate(found)) if found else np.empty(0)
        return np.split(together, np.cumsum([len(rows) for rows in found])[:-1]) if found else []

    def _behind(self, feed: Any, tokens: Sequence[int]) -> Floats:
        """Features with each token in its place."""
        h = self.head.config.hidden
        rows: Floats = feed.copy()
        rows[:, -1] += 1
        embedded = self._embedded(tokens)
        for depth in range(1, self.head.config.depths + 1):
            mine = rows[:, -1] == depth
            rows[mine, depth * h : (depth + 1) * h] = embedded[mine]
        return rows

    def _logits(self, rows: Floats) -> Any:
        found = np.full((len(rows), self.vocab_size), -np.inf, dtype=self._matrices.dtype)
        depths = rows[:, -1].astype(int) - 1
        for depth in set(depths.tolist()):
            if depth < self.head.config.depths:
                mine = depths == depth
                found[mine] = self._of_depth(rows[mine], depth)
        return found

    def _of_depth(self, rows: Floats, i: int) -> Any:
        config, times = self.head.config, self._matrices.times
        h = config.hidden
        f, read = rows[:, :h], rows[:, : config.reads(i) * h]
        y = times(f"heads.{i}.up.weight", read)
        y = y / (1 + np.exp(-y))
        if config.form != "medusa":
            y = times(f"heads.{i}.down.weight", y)
        y = _unit(f + y, config.epsilon) * self._norm
        return times("lm_head.weight", y)

    def _embedded(self, tokens: Sequence[int]) -> Any:
        table = self._table
        raw = table.data.reshape(table.shape[0], -1)[np.array(tokens, dtype=np.int64)]
        values = dequantise(raw.reshape(-1), table.kind).reshape(len(tokens), -1)
        return _unit(values, self.head.config.epsilon)


class _Matrices:
    """What is multiplied with: in 8 bits by the kernels, or by NumPy."""

    def __init__(self, matrices: Mapping[str, Any], path: str, threads: int, exact: bool) -> None:
        self.dtype = np.float64 if exact and path == "numpy" else np.float32
        self._path = path
        if path == "numpy":
            self._floats = {name: m.astype(self.dtype) for name, m in matrices.items()}
            return
        self._pool, arena = c.Pool.of(threads), c.Arena()
        self._packed: dict[str, c.Matrix] = {}
        for name, values in matrices.items():
            rows, width = values.shape
            kind = "F32" if exact or width % BLOCK else "Q8_0"
            blocks = q8_0(values) if kind == "Q8_0" else values.reshape(-1).view(np.uint8)
            self._packed[name] = c.Matrix.packed(kind, rows, width, blocks, self._pool, arena)

    def times(self, name: str, x: Any) -> Any:
        """[n, out]; a row's bits do not depend on the other rows."""
        if self._path != "numpy":
            return self._packed[name].times(x, self._pool, self._path)
        matrix = self._floats[name]
        return np.stack([matrix @ row for row in x.astype(self.dtype)])


def _unit(x: Any, epsilon: float) -> Any:
    """Each row over the root of its mean square."""
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + epsilon)
