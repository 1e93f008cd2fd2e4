"""GGUF files behind slots, on the CPU, without torch: the base install's backend.

    model = NativeModel.load("model.gguf", threads=2)
    model.path, model.weight_bytes, model.cache_bytes

What a row gives depends on the tokens it sees alone: not on how many rows share a pass, on the tree
it stands in, on other slots, on threads, or on the instruction path. So a verified token has the
bits of a token decoded on its own.

`plan.py` runs the kernels; without the C library, `reference.py` computes the same slowly in NumPy
(with float activations where the kernels round them to 8 bits, so the two give different bits).

What this module does not know: laws, proposals, text.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs

from forerun import clib
from forerun.errors import CacheError, ModelFileError, OptionError
from forerun.models.base import (
    Abilities,
    Pages,
    Step,
    check_limits,
    check_restored,
    checked_layers,
    ending_ids,
)
from forerun.models.cores import usable_cores
from forerun.models.features import Featured, Features, Table, fingerprint
from forerun.models.gguf import read_gguf
from forerun.models.load import checked_threads
from forerun.models.native import plan
from forerun.models.native.dequantise import dequantise
from forerun.models.native.graph import Hyperparameters
from forerun.models.native.hyperparameters import read_hyperparameters
from forerun.models.native.reference import Reference
from forerun.models.native.rows import Rows, Runner, lay_out
from forerun.models.native.shared import shared_matrices
from forerun.models.slots import Slots
from forerun.numerics.choice import Choice

if TYPE_CHECKING:
    from typing import Self

PAGE = 64  # tokens by which a slot's cache grows


class NativeModel(Featured):
    """A `Model` from a GGUF file.

    path        the file
    tokenizer   has `vocab_size` and `eos`; None for a model that knows only ids
    name        default: the file's, without .gguf
    eos         ids that end a text; default: the tokenizer's, else the file's
    context     most tokens a slot can hold, if fewer than the file allows
    max_memory  most bytes of cached keys and values; None: no limit
    generation_defaults   recommended sampling; default: none
    threads     None: the physical cores this process may use
    kernels     an instruction path ("avx512", …), "numpy", or None: the best there is
    share       a folder for the packed weights, which processes of this machine then map in common;
                None: weights of its own. Where it cannot be used a RuntimeWarning says why

    ModelFileError or CapabilityError where the file cannot be run, naming tensor and type;
    OptionError where `max_memory` has no room for one page, saying how much would have.
    """

    shares_weights = False  # whether the packed matrices are in a file that others map too

    def __init__(
        self,
        path: str | Path,
        *,
        tokenizer: Any = None,
        name: str | None = None,
        eos: int | Iterable[int] | None = None,
        context: int | None = None,
        max_memory: int | None = None,
        generation_defaults: Mapping[str, Any] | None = None,
        threads: int | None = None,
        kernels: str | None = None,
        share: Path | None = None,
    ) -> None:
        self.file = Path(path)
        check_limits(context, max_memory)
        checked_threads(threads)
        file = read_gguf(path)
        h = read_hyperparameters(file)
        self.threads = usable_cores() if threads is None else threads
        self.tokenizer = tokenizer
        self.name = name or self.file.name.removesuffix(".gguf")
        self._embedded = h.vocabulary
        self.vocab_size = h.vocabulary
        if tokenizer is not None:
            self.vocab_size = min(h.vocabulary, int(tokenizer.vocab_size))
        self.eos = self._ending(eos, file.metadata)
        self.generation_defaults = dict(generation_defaults or {})
        self._table: tuple[Any, str] = file, "token_embd.weight"
        self._last_norm: tuple[Any, str] = file, "output_norm.weight"
        self._run(file, h, kernels, context, max_memory, share)

    def _run(
        self,
        file: Any,
        h: Hyperparameters,
        kernels: str | None,
        context: int | None = None,
        max_memory: int | None = None,
        share: Path | None = None,
        **how: Any,
    ) -> None:
        """Begin to serve: a runner of `file`, which `how` says more of, and no slots."""
        self._runner: Runner
        if kernels is None and (why := clib.why_missing() or plan.why_not(h)):
            warnings.warn(f"{self.file.name}: {why}", RuntimeWarning, stacklevel=3)
            kernels = "numpy"
        if kernels == "numpy":
            how.pop("packed", None)
            self._runner = Reference(file, h, **how)
            self.path = "numpy"
        else:
            make = partial(plan.Plan, file, h, threads=self.threads, path=kernels, **how)
            if share is not None:
                found = shared_matrices(self.file, share, lambda: make().matrices)
                self.shares_weights = found is not None
                make = partial(make, packed=found)
            self._runner = fast = make()
            self.path = fast.path
        self.context: int | None = h.context if context is None else min(context, h.context)
        self.abilities = Abilities(features=True, skips=True)
        self._features = Features(h.hidden, h.layers)
        self.max_memory = max_memory
        page = self._runner.bytes_per_cell * PAGE
        if max_memory is not None and max_memory < page:
            raise OptionError(
                f"max_memory must be at least {page:,} bytes, the cache of {PAGE} tokens,"
                f" not {max_memory:,}"
            )
        self._slots = Slots()

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        dtype: str = "float32",
        device: str = "cpu",
        cache_dir: Path | None = None,
        share_weights: bool = False,
        **options: Any,
    ) -> Self:
        """For `load_model`, which asks for no other device. In the cache folder is nothing but what
        is shared."""
        del device
        if dtype != "float32":
            raise OptionError(
                f"the native backend computes as the file says; dtype {dtype} is for backend 'hf'"
            )
        if not Path(source).is_file():
            raise ModelFileError(f"{source}: the native backend runs GGUF files; this is none")
        home = cache_dir or platformdirs.user_cache_path("forerun")
        return cls(source, share=home / "packed" if share_weights else None, **options)

    def _ending(
        self, eos: int | Iterable[int] | None, metadata: Mapping[str, Any]
    ) -> frozenset[int]:
        known: Any = None if self.tokenizer is None else self.tokenizer.eos or None
        if known is None:
            known = metadata.get("tokenizer.ggml.eos_token_id")
        return ending_ids(eos, known, self.vocab_size)

    @property
    def cost_key(self) -> str:
        """What the time of a pass depends on: file, kernels, threads, whose the weights are."""
        found = self.file.stat()
        file = f"{self.file.resolve()}:{found.st_size}:{found.st_mtime_ns}"
        return f"{file}:{self.path}:{self.threads}{':shared' * self.shares_weights}"

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of the packed matrices; None where NumPy runs."""
        return self._runner.weight_bytes if isinstance(self._runner, plan.Plan) else None

    @property
    def cache_bytes(self) -> int:
        """Bytes the cached keys and values take now."""
        return self._cell_bytes * sum(map(self._runner.cells, self._slots))

    @property
    def _cell_bytes(self) -> int:
        """What a token takes, with its features."""
        return self._runner.bytes_per_cell + self._features.nbytes

    def open(self) -> int:
        return self._slots.open(self._reserve)

    def close(self, slot: int) -> None:
        self._slots.close(slot)
        self._runner.reserve(slot, 0)
        self._features.forget(slot)

    def length(self, slot: int) -> int:
        return self._slots.length(slot)

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        """One pass; for each step logits [wanted, V], float32; or, where all ask for laws alone, a
        `Choice` for each row.

        PromptError for ids that are out of range, CacheError where a slot would outgrow its context
        or all slots the memory; then nothing changed.
        """
        lengths = [self.length(step.slot) for step in steps]
        rows = self._rows(steps, lengths)
        wanted = self._wanted(rows, steps)
        features = self._runner.features
        found = []
        start = row = 0
        for step, before in zip(steps, lengths):
            self._slots.record(step)
            self._features.record(step.slot, before, features[row : row + len(step.tokens)])
            found.append(wanted[start : start + step.wanted])
            start, row = start + step.wanted, row + len(step.tokens)
        return found

    def skim(self, steps: Sequence[Step], skipped: Collection[int]) -> list[Any]:
        checked_layers(skipped, self.layers)
        rows = self._rows(steps, [self.length(step.slot) for step in steps])
        logits = self._runner.skim(rows, frozenset(skipped))[:, : self.vocab_size]
        for step in steps:
            self._slots.record(step)
        ends = list(accumulate(step.wanted for step in steps))
        return [logits[end - step.wanted : end] for step, end in zip(steps, ends)]

    def _rows(self, steps: Sequence[Step], lengths: Sequence[int]) -> Rows:
        """Of a pass that is possible, and has the room it needs."""
        for step in steps:
            self._slots.check(step, self.context, self._embedded)
        self._reserve({s.slot: before + len(s.tokens) for s, before in zip(steps, lengths)})
        return lay_out(steps, lengths)

    def tap(self, layers: Sequence[int]) -> int:
        if self._features.tap(layers):
            self._runner.tap(layers)
        return self._features.width

    def embeddings(self) -> Table:
        file, name = self._table
        tensor = file.tensors[name]
        packed = self._runner.packed(name) if isinstance(self._runner, plan.Plan) else None
        return Table(kind=tensor.type, shape=tensor.shape, data=file.data(name), packed=packed)

    @property
    def fingerprint(self) -> str:
        file, name = self._last_norm
        norm = dequantise(file.data(name), file.tensors[name].type)
        return fingerprint(norm, self.tokenizer)

    def _wanted(self, rows: Rows, steps: Sequence[Step]) -> Any:
        """Of all wanted rows of these steps."""
        runner, size = self._runner, self.vocab_size
        if not len(rows):
            return np.empty((0, size), np.float32)
        asked = [params for step in steps for params in [step.params] * step.wanted if params]
        if asked and len(asked) == len(rows.wanted) and isinstance(runner, plan.Plan):
            if any(params.temperature for params in asked):
                return runner.laws(rows, asked, size)
            return [Choice(token, size) for token in runner.choose(rows, size).tolist()]
        logits = runner.run(rows)
        return logits if size == self._embedded else logits[:, :size]

    def _reserve(self, wanted: Mapping[int, int]) -> None:
        """Room for so many tokens in each slot, by whole pages; CacheError with the figures.

        Where memory is short, room that slots do not need any more is given up for it.
        """
        runner = self._runner
        rooms = {slot: runner.cells(slot) for slot in self._slots}
        growth = {s: _paged(n) for s, n in wanted.items() if n > rooms[s]}
        if not growth:
            return
        if not self._allowed(sum((rooms | growth).values())):
            growth = {s: _paged(wanted.get(s, self.length(s))) for s in rooms}
        total = sum((rooms | growth).values())
        if not self._allowed(total):
            raise CacheError(
                f"the caches of {len(self._slots)} slots would take"
                f" {total * self._cell_bytes:,} bytes, max_memory is {self.max_memory:,}"
            )
        try:
            for slot, cells in sorted(growth.items(), key=lambda each: each[1] - rooms[each[0]]):
                runner.reserve(slot, cells)  # those that give up room come first
        except MemoryError as error:
            for slot in growth:
                runner.reserve(slot, min(rooms[slot], runner.cells(slot)))
            raise CacheError(
                f"no memory for caches of {total * self._cell_bytes:,} bytes"
            ) from error

    def _allowed(self, cells: int) -> bool:
        return self.max_memory is None or cells * self._cell_bytes <= self.max_memory

    def fits(self, lengths: Sequence[int]) -> bool:
        if self.context is not None and max(lengths, default=0) > self.context:
            return False
        return self._allowed(sum(map(_paged, lengths)))

    def save(self, slot: int, start: int, stop: int) -> Pages:
        self._slots.check_saved(slot, start, stop)
        try:
            cells = self._runner.save(slot, start, stop)
        except MemoryError as error:
            raise CacheError(f"no memory for a copy of {stop - start} tokens") from error
        features = self._features.save(slot, start, stop)
        return Pages(
            model=self,
            start=start,
            stop=stop,
            nbytes=cells.nbytes + features.nbytes,
            cells=cells,
            features=features,
        )

    def restore(self, slot: int, pages: Pages, count: int) -> None:
        check_restored(self, slot, pages, count)
        end = pages.start + count
        self._reserve({slot: end})
        self._runner.restore(slot, pages.start, count, pages.cells)
        self._features.restore(slot, pages.start, count, pages.features)
        self._slots.settle(slot, end)

    def keep(self, slot: int, length: int, path: Sequence[int] | None = None) -> None:
        before = self._slots.before(slot, length, path)
        if path is not None and any(i != index for i, index in enumerate(path)):
            self._runner.move(slot, before, path)
        self._features.keep(slot, length, path)
        self._slots.settle(slot, length)


def _paged(tokens: int) -> int:
    """Cells of the whole pages that a slot of so many tokens has; an empty one has one page."""
    return max(-(-tokens // PAGE), 1) * PAGE
