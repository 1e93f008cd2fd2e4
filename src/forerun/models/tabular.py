"""A model whose law is known exactly: for proofs, tests and the playground.

`next_law(prefix)` maps a tuple of token ids to V probabilities. Everything is float64, and the
logits are log p, so that at temperature 1 the law is the table's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from forerun.errors import CacheError, OptionError
from forerun.models.base import (
    Abilities,
    Pages,
    Step,
    check_context,
    check_limits,
    check_restored,
    check_saved,
    checked_layers,
    checked_path,
)
from forerun.models.features import Featured, Features, Floats, Table, fingerprint
from forerun.sampling import is_whole

TOKEN_BYTES = 8  # that a cached token counts for
HIDDEN, LAYERS = 32, 3  # of the hidden states that it hands out


class TabularModel(Featured):
    """A `Model` from a function of the prefix.

    next_law    prefix of token ids (a tuple) -> V probabilities; a pure function
    vocab_size  V
    eos         an id, several, or None: which ids end a text
    context     most tokens a slot can hold; None: no limit
    max_memory  most bytes of cached tokens, of 8 bytes each; None: no limit
    tokenizer   what text the ids stand for, where drafters of other vocabularies are to know

    OptionError for values that make no sense. What its passes take says nothing, so that it states
    nominal costs in `pass_seconds`: a millisecond, and 2% more for each further row. For heads it
    has hidden states: random numbers that depend on all tokens of a prefix.
    """

    pass_seconds = tuple(1e-3 * (1 + 0.02 * i) for i in range(16))

    def __init__(
        self,
        next_law: Callable[[tuple[int, ...]], Sequence[float]],
        vocab_size: int,
        eos: int | Iterable[int] | None = None,
        *,
        context: int | None = None,
        max_memory: int | None = None,
        tokenizer: Any = None,
        name: str = "tabular",
    ) -> None:
        if not callable(next_law):
            raise OptionError(f"next_law is a function of a prefix, not {next_law!r}")
        if not is_whole(vocab_size) or vocab_size < 1:
            raise OptionError(f"vocab_size must be at least 1, not {vocab_size!r}")
        check_limits(context, max_memory)
        several = isinstance(eos, Iterable) and not isinstance(eos, (str, bytes))
        ids: list[Any] = [] if eos is None else list(eos) if several else [eos]  # type: ignore[arg-type]
        if bad := [i for i in ids if not is_whole(i) or not 0 <= i < vocab_size]:
            raise OptionError(f"eos {bad[0]!r} is not an id below vocab_size {vocab_size}")
        self.name = name
        self.vocab_size = int(vocab_size)
        self.eos = frozenset(int(i) for i in ids)
        self.context = context
        self.max_memory = max_memory
        self.abilities = Abilities(features=True)
        self._features = Features(HIDDEN, LAYERS)
        self.tokenizer = tokenizer
        self._next_law = next_law
        self._cached: dict[int, tuple[int, ...]] = {}
        self._last: dict[int, tuple[int, Step]] = {}  # length before the last step, and that step

    def open(self) -> int:
        slot = next(i for i in range(len(self._cached) + 1) if i not in self._cached)
        self._cached[slot] = ()
        return slot

    def close(self, slot: int) -> None:
        del self._cached[slot]
        self._last.pop(slot, None)
        self._features.forget(slot)

    @property
    def cache_bytes(self) -> int:
        """Bytes that the cached tokens count for."""
        return TOKEN_BYTES * sum(map(len, self._cached.values()))

    def length(self, slot: int) -> int:
        if slot not in self._cached:
            raise CacheError(f"slot {slot} is not open; open slots: {sorted(self._cached)}")
        return len(self._cached[slot])

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        lengths = {step.slot: self.length(step.slot) + len(step.tokens) for step in steps}
        for slot, length in lengths.items():
            check_context(slot, length, self.context)
        self._check_memory(lengths)
        return [self._extend(step) for step in steps]

    def _extend(self, step: Step) -> Any:
        before = self._cached[step.slot]
        prefixes: list[tuple[int, ...]] = []
        for i, token in enumerate(step.tokens):
            parent = i - 1 if step.parents is None else step.parents[i]
            prefixes.append((before if parent < 0 else prefixes[parent]) + (token,))
        self._cached[step.slot] = before + tuple(step.tokens)
        self._last[step.slot] = (len(before), step)
        if prefixes and (layers := self._features.layers):
            rows = np.stack([np.concatenate([_state(p, n) for n in layers]) for p in prefixes])
            self._features.record(step.slot, len(before), rows)
        wanted = prefixes[len(prefixes) - step.wanted :]
        logits = np.empty((len(wanted), self.vocab_size))
        with np.errstate(divide="ignore"):
            for row, prefix in zip(logits, wanted):
                row[:] = np.log(self._row(prefix))
        return logits

    def _row(self, prefix: tuple[int, ...]) -> Any:
        p = np.asarray(self._next_law(prefix), dtype=np.float64)
        if p.shape != (self.vocab_size,) or (p < 0).any() or abs(p.sum() - 1) > 1e-6:
            raise OptionError(
                f"next_law({prefix}) must give {self.vocab_size} probabilities that sum to 1, "
                f"not {p.tolist()}"
            )
        return p

    def keep(self, slot: int, length: int, path: Sequence[int] | None = None) -> None:
        cached = self._cached[slot]
        if path is not None:
            if slot not in self._last:
                raise CacheError(f"slot {slot} has no step whose path could be kept")
            before, step = self._last[slot]
            checked_path(path, step.parents, len(step.tokens), before, length)
            cached = cached[:before] + tuple(step.tokens[i] for i in path)
        elif not 0 <= length <= len(cached):
            raise CacheError(f"slot {slot} holds {len(cached)} tokens and cannot keep {length}")
        self._cached[slot] = cached[:length]
        self._last.pop(slot, None)
        self._features.keep(slot, length, path)

    def embeddings(self) -> Table:
        values = np.stack([_state((token,), 0) for token in range(self.vocab_size)])
        return Table(kind="F32", shape=values.shape, data=values.reshape(-1).view(np.uint8))

    @property
    def fingerprint(self) -> str:
        return fingerprint([HIDDEN, LAYERS, self.vocab_size], self.tokenizer)

    def fits(self, lengths: Sequence[int]) -> bool:
        if self.context is not None and max(lengths, default=0) > self.context:
            return False
        return self.max_memory is None or TOKEN_BYTES * sum(lengths) <= self.max_memory

    def save(self, slot: int, start: int, stop: int) -> Pages:
        cached = self._cached[slot]
        check_saved(slot, len(cached), self._last.get(slot), start, stop)
        cells = cached[start:stop]
        features = self._features.save(slot, start, stop)
        return Pages(
            model=self,
            start=start,
            stop=stop,
            nbytes=TOKEN_BYTES * len(cells) + features.nbytes,
            cells=cells,
            features=features,
        )

    def restore(self, slot: int, pages: Pages, count: int) -> None:
        check_restored(self, slot, pages, count)
        self._check_memory({slot: pages.start + count})
        self._cached[slot] += pages.cells[:count]
        self._features.restore(slot, pages.start, count, pages.features)
        self._last.pop(slot, None)

    def _check_memory(self, wanted: Mapping[int, int]) -> None:
        """CacheError unless slots of the `wanted` lengths have room beside the others."""
        lengths = {slot: len(cached) for slot, cached in self._cached.items()} | dict(wanted)
        total = TOKEN_BYTES * sum(lengths.values())
        if self.max_memory is not None and total > self.max_memory:
            raise CacheError(
                f"the caches of {len(self._cached)} slots would take {total:,} bytes, "
                f"max_memory is {self.max_memory:,}"
            )


class LayeredTabularModel(TabularModel):
    """One that pretends to have layers, some of which can be left out.

    shallow_law  (prefix, the layers left out: a frozenset) -> V probabilities; a pure function
    layers       how many there are

    The rest is as for `TabularModel`.
    """

    def __init__(
        self,
        next_law: Callable[[tuple[int, ...]], Sequence[float]],
        shallow_law: Callable[[tuple[int, ...], frozenset[int]], Sequence[float]],
        layers: int,
        vocab_size: int,
        eos: int | Iterable[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(next_law, vocab_size, eos, **options)
        self.abilities = Abilities(features=True, skips=True)
        self._features = Features(HIDDEN, layers)
        self._shallow_law = shallow_law

    def skim(self, steps: Sequence[Step], skipped: Collection[int]) -> list[Any]:
        checked_layers(skipped, self.layers)
        whole, without = self._next_law, frozenset(skipped)
        self._next_law = partial(_of_the_rest, self._shallow_law, without)
        try:
            return self.extend(steps)
        finally:
            self._next_law = whole


def _of_the_rest(
    law: Callable[[tuple[int, ...], frozenset[int]], Sequence[float]],
    skipped: frozenset[int],
    prefix: tuple[int, ...],
) -> Sequence[float]:
    return law(prefix, skipped)


def _state(prefix: tuple[int, ...], layer: int) -> Floats:
    """[HIDDEN]: what stands behind so many layers, at the prefix's last token."""
    seen = prefix[-1:] if layer == 0 else prefix
    dice = np.random.default_rng([layer, len(seen), *seen])  # without the length, [1] is [1, 0]
    return dice.standard_normal(HIDDEN, dtype=np.float32)
