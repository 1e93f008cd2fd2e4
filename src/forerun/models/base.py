"""What the round needs of a model: one batched forward over slots, and a cache that rolls back.

    slot = model.open()
    rows = model.extend([Step(slot=slot, tokens=(5, 9, 2), parents=(-1, 0, 0))])[0]   # [3, V]
    model.keep(slot, 2, path=(0, 2))     # the cache now holds 5, 2; token 9 is forgotten

A slot is one sequence: its cached tokens, by absolute position. Every slot has its own length;
nothing is shifted, and no mask is derived from token values. `TabularModel` is the fake that ships
for tests and proofs; the contract suite in tests/models/contract.py runs once for each backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from forerun.errors import CacheError


@dataclass(frozen=True, kw_only=True)
class Step:
    """New tokens of one slot in a pass.

    `parents[i]` is the index in `tokens` of the token before token i; −1 is the slot's last cached
    token (or the beginning). None is a chain. Logits come back for the last `rows` tokens; None:
    all.
    """

    slot: int
    tokens: Sequence[int]
    parents: Sequence[int] | None = None
    rows: int | None = None

    @property
    def wanted(self) -> int:
        return len(self.tokens) if self.rows is None else self.rows


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a model can do beyond a forward pass; checked when the engine is built."""

    rollback: bool = True  # keep() may shorten a slot
    trees: bool = True  # extend() takes parents that are not a chain


@runtime_checkable
class Model(Protocol):
    """A model behind slots. V is `vocab_size`: the ids that mean something, padding left off.

    A model may also have `generation_defaults`: sampling keywords that its authors recommend, which
    the command line takes where the user says nothing.
    """

    @property
    def name(self) -> str: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def eos(self) -> frozenset[int]:
        """All ids that end a text."""
        ...

    @property
    def context(self) -> int | None:
        """Most tokens a slot can hold; None: no limit."""
        ...

    @property
    def abilities(self) -> Abilities: ...

    @property
    def tokenizer(self) -> Any:
        """A `text.tokenizer.Tokenizer`, or None for a model that knows only ids."""
        ...

    def open(self) -> int:
        """A new, empty slot. CacheError with the figures if there is no room."""
        ...

    def close(self, slot: int) -> None:
        """Free a slot; its number may be handed out again."""
        ...

    def length(self, slot: int) -> int:
        """Tokens in the slot's cache."""
        ...

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        """One forward pass; for each step the next-token logits [wanted, V] after its tokens.

        Steps are of different slots, and of any lengths. All new tokens are cached, in the order
        given, until `keep`. CacheError if a slot would outgrow its context; then nothing changed.
        """
        ...

    def keep(self, slot: int, length: int, path: Sequence[int] | None = None) -> None:
        """Make the slot hold exactly `length` tokens, an absolute number.

        Without `path` the cache is cut at `length`. With it, `path` lists indices into the last
        step's tokens (from the root down), those are moved together behind what stood before that
        step, and the rest is forgotten: length = before + len(path). CacheError where that is not
        possible; then nothing changed.
        """
        ...


def checked_path(
    path: Sequence[int], parents: Sequence[int] | None, count: int, before: int, length: int
) -> None:
    """Raise CacheError unless `path` walks the last step's tree from the root and fits `length`."""
    if before + len(path) != length:
        raise CacheError(
            f"{before} tokens before the step and a path of {len(path)} do not make {length}"
        )
    above = -1
    for i in path:
        if not 0 <= i < count:
            raise CacheError(f"path index {i} is not among the {count} tokens of the last step")
        if (i - 1 if parents is None else parents[i]) != above:
            raise CacheError(
                f"path {tuple(path)} does not walk the tree: {i} does not follow {above}"
            )
        above = i
