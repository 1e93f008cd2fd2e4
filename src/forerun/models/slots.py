"""Which slots are open, how long each is, and its last step: what backends with caches keep alike.

    slot = slots.open(reserve)                  slots.check(step, context, vocabulary)
    slots.record(step)                          the pass went well
    before = slots.before(slot, length, path)   keep is possible; move what `path` says, then
    slots.settle(slot, length)
    slots.check_saved(slot, start, stop)        it can be copied

What this module does not know: where keys and values lie, and what they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from forerun.errors import CacheError
from forerun.models.base import Step, check_saved, check_step, checked_path


class Slots:
    """Numbers of open slots, in the order of opening."""

    def __init__(self) -> None:
        self._lengths: dict[int, int] = {}
        self._last: dict[int, tuple[int, Step]] = {}  # length before the last step, and that step

    def __iter__(self) -> Iterator[int]:
        return iter(self._lengths)

    def __len__(self) -> int:
        return len(self._lengths)

    def open(self, reserve: Callable[[Mapping[int, int]], None]) -> int:
        """The lowest number that was not open, for which `reserve` has room for a token; what it
        raises leaves the slot closed."""
        slot = next(i for i in range(len(self._lengths) + 1) if i not in self._lengths)
        self._lengths[slot] = 0
        try:
            reserve({slot: 1})
        except CacheError:
            self.close(slot)
            raise
        return slot

    def close(self, slot: int) -> None:
        self.length(slot)
        del self._lengths[slot]
        self._last.pop(slot, None)

    def length(self, slot: int) -> int:
        """Tokens in the slot's cache. CacheError for a slot that is not open."""
        if slot not in self._lengths:
            raise CacheError(f"slot {slot} is not open; open slots: {sorted(self._lengths)}")
        return self._lengths[slot]

    def check(self, step: Step, context: int | None, vocabulary: int) -> None:
        """See `check_step`."""
        check_step(step, self.length(step.slot), context, vocabulary)

    def record(self, step: Step) -> None:
        """The step's tokens are in the cache now."""
        before = self._lengths[step.slot]
        self._last[step.slot] = (before, step)
        self._lengths[step.slot] = before + len(step.tokens)

    def before(self, slot: int, length: int, path: Sequence[int] | None) -> int:
        """The slot's length before its last step or, without a path, now; nothing is changed.

        CacheError where `keep` with these arguments is impossible.
        """
        held = self.length(slot)
        if path is None:
            if not 0 <= length <= held:
                raise CacheError(f"slot {slot} holds {held} tokens and cannot keep {length}")
            return held
        if slot not in self._last:
            raise CacheError(f"slot {slot} has no step whose path could be kept")
        before, step = self._last[slot]
        checked_path(path, step.parents, len(step.tokens), before, length)
        return before

    def settle(self, slot: int, length: int) -> None:
        """The slot holds `length` tokens, and its last step is over."""
        self._lengths[slot] = length
        self._last.pop(slot, None)

    def check_saved(self, slot: int, start: int, stop: int) -> None:
        """See `check_saved`."""
        check_saved(slot, self.length(slot), self._last.get(slot), start, stop)
