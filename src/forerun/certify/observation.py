"""One emitted token with all that was known before it: what the law's test is fed.

    test = LawTest(level=1e-6)
    for sequence in submission order:          # fixed before anything was sampled
        for token in the sequence:             # up to its end, or its last token
            test.observe(Observation(sequence=…, position=…, token=…, p=…, prefix=…))
    test.verdict().sentence

Everything in an observation but `token` must be known before the token is drawn: bets may look at
it. So `q` is the law that a draft is drawn from, never the drafted token itself; `depth` counts the
tokens of the round before this one, and does not say whether this one was accepted.

What this module does not know: where p comes from, and what a test makes of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from forerun.certify.law_verdict import LawVerdict
from forerun.errors import OptionError

Array = NDArray[np.float64]
Keys = Sequence[Hashable] | NDArray[np.int64]
"""The class of each token: names, or whole numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """A token that the engine emitted, and what was known before it."""

    sequence: int  # which request, by its number in submission order, from 0
    position: int  # which token of its output, from 0; none is left out
    token: int  # what was emitted
    p: Array  # the target's law [V] here, after processing; sums to 1
    prefix: Sequence[int]  # ids before it: prompt, then output; drafted ones are not among them
    q: Array | None = None
    """The draft's law [V] at this place, None where nothing was drafted here or it is not known.

    One-hot where the draft follows from the prefix alone (lookups); for a sampled draft it must not
    be, for given what was drafted a lossless engine's token does not follow p.
    """
    depth: int | None = None
    """Tokens of the same round before this one, where that is known.

    Given also the depth, tokens follow p under every verifier whose next round starts afresh
    (rejection, block, coupled); leave None for one that carries a debt from round to round.
    """
    context: Hashable = None  # a class of prefixes that may share a fault; None: by the last id
    prompt: Hashable = 0  # which prompt
    setting: str = ""  # name of the sampling controls and of the engine's options
    rounding: float = 0.0
    """By how much log p may be off, of any token: what a fair bet may gain by that is taken off."""
    others: Mapping[str, Array] = field(default_factory=dict)
    """Laws [V] that the token would follow under further named faults, where the reference can
    tell them: penalties with stale history, and the like."""


class Observer(Protocol):
    """What takes observations, in submission order, and can be asked at any time."""

    def observe(self, observation: Observation) -> None:
        """Take one more token. OptionError where it does not follow the one before."""

    def verdict(self) -> LawVerdict:
        """What the tokens so far say."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Several observations of one vocabulary, in their order, as arrays. N tokens."""

    sequence: NDArray[np.int64]  # [N]
    position: NDArray[np.int64]  # [N]
    token: NDArray[np.int64]  # [N]
    p: Array  # [N, V]
    recent: NDArray[np.int64]  # [N, R] the last ids before each, the latest first; −1: none
    q: Array | None = None  # [N, V]; a row of NaN: not known
    copied: NDArray[np.int64] | None = None  # [N] what a lookup would draft; −1: nothing
    classes: Mapping[str, Keys] = field(default_factory=dict)
    """Name of a partition -> the class of each token, by which bets may differ."""
    others: Mapping[str, Array] = field(default_factory=dict)  # name -> [N, V]; rows of NaN

    def __post_init__(self) -> None:
        n, size = self.p.shape
        if self.token.shape != (n,) or not ((self.token >= 0) & (self.token < size)).all():
            raise OptionError(f"{n} tokens below {size} are needed, not {self.token.tolist()}")
        off = np.abs(self.p.sum(axis=1) - 1)
        if not (off < SUM_TOLERANCE).all() or (self.p < 0).any():
            raise OptionError(f"a law must sum to 1; one sums to {1 + off.max()}")

    def __len__(self) -> int:
        return len(self.token)


SUM_TOLERANCE = 1e-4
"""How far a law's sum may be from 1 (float32 laws of large vocabularies)."""

RECENT = 8
"""How many of the last ids orders may look at."""


def blocks(observations: Sequence[Observation]) -> Iterator[Block]:
    """The observations as blocks; a new one where the vocabulary's size changes."""
    start = 0
    for i in range(1, len(observations) + 1):
        if i == len(observations) or len(observations[i].p) != len(observations[start].p):
            yield _stack(observations[start:i])
            start = i


def _stack(some: Sequence[Observation]) -> Block:
    names = dict.fromkeys(name for each in some for name in each.others)
    drafted = any(each.q is not None for each in some)
    return Block(
        sequence=np.array([each.sequence for each in some], dtype=np.int64),
        position=np.array([each.position for each in some], dtype=np.int64),
        token=np.array([each.token for each in some], dtype=np.int64),
        p=_rows(some, [each.p for each in some]),
        recent=np.array([_recent(each.prefix) for each in some], dtype=np.int64),
        q=_rows(some, [each.q for each in some]) if drafted else None,
        copied=np.array([copied(each.prefix) for each in some], dtype=np.int64),
        classes=_classes(some),
        others={name: _rows(some, [each.others.get(name) for each in some]) for name in names},
    )


def _rows(some: Sequence[Observation], laws: Sequence[Any]) -> Array:
    rows = np.full((len(some), len(some[0].p)), np.nan)
    for row, law in zip(rows, laws):
        if law is not None:
            row[:] = law
    return rows


def _recent(prefix: Sequence[int]) -> list[int]:
    last = [int(i) for i in prefix[-RECENT:]][::-1]
    return last + [-1] * (RECENT - len(last))


LOOK_BACK = 2000  # ids that a lookup goes over


def copied(prefix: Sequence[int]) -> int:
    """What came behind the latest earlier place of the last two ids, or else of the last one.

    A guess at what lookup drafters draft (prompt lookup, n-grams, suffixes); −1 where there is no
    such place.
    """
    text = [int(i) for i in prefix[-LOOK_BACK:]]
    single = -1
    for at in range(len(text) - 2, -1, -1):
        if text[at] == text[-1]:
            if at > 0 and text[at - 1] == text[-2]:
                return text[at + 1]
            single = text[at + 1] if single < 0 else single
    return single


JOINT = 3
"""So many tokens of an output have the whole of what came before as their class."""


def _classes(some: Sequence[Observation]) -> dict[str, list[Hashable]]:
    found: dict[str, list[Hashable]] = {
        "context": [_context(each) for each in some],
        "beginning": [_beginning(each) for each in some],
        "prompt": [each.prompt for each in some],
    }
    if any(each.depth is not None for each in some):
        found["depth"] = [each.depth for each in some]
    if any(each.setting for each in some):
        found["setting"] = [each.setting for each in some]
    return found


def _context(each: Observation) -> Hashable:
    if each.context is not None:
        return each.context
    return int(each.prefix[-1]) if len(each.prefix) else None


def _beginning(each: Observation) -> Hashable:
    if each.position >= JOINT:
        return "later"
    output = each.prefix[len(each.prefix) - each.position :]
    return (each.setting, each.prompt, *(int(i) for i in output))
