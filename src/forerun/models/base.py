"""What the round needs of a model: one batched forward over slots, and a cache that rolls back.

    slot = model.open()
    rows = model.extend([Step(slot=slot, tokens=(5, 9, 2), parents=(-1, 0, 0))])[0]   # [3, V]
    model.keep(slot, 2, path=(0, 2))     # the cache now holds 5, 2; token 9 is forgotten
    pages = model.save(slot, 0, 2)       # a copy of what is cached of 5, 2
    model.restore(model.open(), pages, 1)    # another slot that holds 5, without a pass

A slot is one sequence: its cached tokens, by absolute position. Every slot has its own length;
nothing is shifted, and no mask is derived from token values. `TabularModel` is the fake that ships
for tests and proofs; the contract suite in tests/models/contract.py runs once for each backend.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from forerun.errors import CacheError, OptionError, PromptError
from forerun.sampling import SamplingParams, is_whole

if TYPE_CHECKING:
    from forerun.models.features import Table


@dataclass(frozen=True, kw_only=True)
class Step:
    """New tokens of one slot in a pass.

    `parents[i]` is the index in `tokens` of the token before token i; −1 is the slot's last cached
    token (or the beginning). None is a chain. Logits come back for the last `rows` tokens; None:
    all. With `params` only the law of each row by them will be asked for, with nothing adjusted: a
    model may give what `numerics/choice.py` has in the row's place.
    """

    slot: int
    tokens: Sequence[int]
    parents: Sequence[int] | None = None
    rows: int | None = None
    params: SamplingParams | None = None
    feed: Any = None  # [n, hidden]: what a head reads beside each token (`models/heads`)

    @property
    def wanted(self) -> int:
        return len(self.tokens) if self.rows is None else self.rows


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a model can do beyond a forward pass; checked when the engine is built."""

    rollback: bool = True  # keep() may shorten a slot
    trees: bool = True  # extend() takes parents that are not a chain
    pages: bool = True  # save() and restore() work; else they raise CapabilityError
    features: bool = False  # it has tap() and features(), of `Tapped`
    skips: bool = False  # it has layers and skim(), of `Skipping`


@dataclass(frozen=True, kw_only=True)
class Pages:
    """A copy of cached keys and values of positions start … stop − 1 of some text.

    Nothing that happens to slots later changes it. It fits the model that made it, behind the same
    `start` tokens that stood before it there: what a token caches depends on all before it.
    `sound` False: something in it is not finite, perhaps because of tokens read in the same pass,
    so that other texts should not get it.
    """

    model: Any = field(repr=False)  # that made it
    start: int
    stop: int
    nbytes: int
    sound: bool = True
    cells: Any = field(repr=False)  # the model's own
    features: Any = field(default=(), repr=False)  # of each token, where the model is tapped

    def __len__(self) -> int:
        return self.stop - self.start


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

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether slots of so many tokens, and no others, can be open together.

        It goes by context and cache limit, not by what the machine has left, and says what `open`
        and `extend` would: whatever the open slots held before, they can grow to `lengths` where it
        is True, and CacheError comes where it is False.
        """
        ...

    def save(self, slot: int, start: int, stop: int) -> Pages:
        """A copy of what is cached of positions start … stop − 1, at least one.

        CacheError for positions that the slot does not hold, or that belong to a tree not yet kept,
        and where there is no memory for a copy.
        """
        ...

    def restore(self, slot: int, pages: Pages, count: int) -> None:
        """Append the first `count` cached tokens of `pages` to the slot, which holds `pages.start`.

        The caller answers for its being the same text. CacheError where the slot's length is
        another, where `pages` holds fewer or is of another model, or where context or memory do not
        suffice; then nothing changed.
        """
        ...


@runtime_checkable
class Tapped(Protocol):
    """A model whose hidden states can be had, for heads on it: see `features.py`."""

    def tap(self, layers: Sequence[int]) -> int:
        """Hand out, of each pass from now on, what stands behind so many layers; () ends that.

        Returns the values of a feature. OptionError for a number of layers that it does not have,
        CapabilityError where others are handed out already.
        """
        ...

    def features(self, slot: int, start: int = 0) -> Any:
        """[n, width], float32 in NumPy, to be read before the slot changes: of the slot's tokens
        from position `start` on. Fewer, the last n of them, where some were read before the model
        was tapped."""
        ...

    @property
    def layers(self) -> int: ...
    @property
    def hidden(self) -> int:
        """Values of a state."""
        ...

    def embeddings(self) -> Table: ...

    @property
    def fingerprint(self) -> str:
        """See `features.fingerprint`."""
        ...


class Skipping(Protocol):
    """A model that can pass over some of its layers, to draft for itself: see `shallow.py`."""

    @property
    def layers(self) -> int: ...

    def skim(self, steps: Sequence[Step], skipped: Collection[int]) -> list[Any]:
        """As `extend`, but layers whose numbers are `skipped` are left out: what comes into one
        goes out of it, and nothing is cached for it. OptionError for a layer there is not.

        The new tokens read what `extend` cached of those before them, as far as the layers are the
        same. What they cache themselves is good for `skim` with the same layers alone: the caller
        drops it with `keep` before anything else is done with the slot. `features` stay as they
        are.
        """
        ...


def checked_layers(skipped: Collection[int], layers: int) -> None:
    """OptionError unless all of `skipped` are numbers of layers."""
    if bad := [i for i in skipped if not is_whole(i) or not 0 <= i < layers]:
        raise OptionError(f"layers are numbered 0 to {layers - 1}, and {bad[0]!r} is none of them")


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


def check_context(slot: int, total: int, context: int | None) -> None:
    """CacheError where a slot would hold more tokens than its context."""
    if context is not None and total > context:
        raise CacheError(f"slot {slot} would hold {total} tokens, its context is {context}")


def check_step(step: Step, held: int, context: int | None, vocabulary: int) -> None:
    """CacheError, PromptError or OptionError for a step that a slot of `held` tokens cannot take.

    `vocabulary` is the number of rows of the embedding, padding included.
    """
    check_context(step.slot, held + len(step.tokens), context)
    if step.tokens and not 0 <= min(step.tokens) <= max(step.tokens) < vocabulary:
        bad = next(t for t in step.tokens if not 0 <= t < vocabulary)
        raise PromptError(f"id {bad} is out of range; the model knows 0 to {vocabulary - 1}")
    if not 0 <= step.wanted <= len(step.tokens):
        raise OptionError(f"{step.wanted} rows of {len(step.tokens)} tokens")
    if step.parents is not None and (
        len(step.parents) != len(step.tokens)
        or any(not -1 <= parent < i for i, parent in enumerate(step.parents))
    ):
        raise OptionError(f"parents {tuple(step.parents)} are no tree: −1 or an earlier token each")


def check_saved(slot: int, held: int, last: tuple[int, Step] | None, start: int, stop: int) -> None:
    """CacheError unless positions start … stop − 1 of the slot are cached, in one chain.

    `last` is the length before the slot's last step and that step, while it is not settled.
    """
    if not 0 <= start < stop <= held:
        raise CacheError(
            f"positions {start} to {stop - 1} cannot be saved: slot {slot} holds {held} tokens"
        )
    if last is not None and last[1].parents is not None and stop > last[0]:
        raise CacheError(
            f"positions {start} to {stop - 1} cannot be saved: from {last[0]} on slot {slot} holds"
            " a tree, of which a path must be kept first"
        )


def check_restored(model: Model, slot: int, pages: Pages, count: int) -> None:
    """CacheError unless the first `count` tokens of `pages` can follow what the slot holds."""
    if pages.model is not model:
        raise CacheError(f"pages of {pages.model.name} do not fit {model.name}, another model")
    held = model.length(slot)
    if held != pages.start:
        raise CacheError(
            f"pages from position {pages.start} on cannot follow the {held} tokens of slot {slot}"
        )
    if not 0 <= count <= len(pages):
        raise CacheError(f"{count} tokens cannot be restored from pages of {len(pages)}")
    check_context(slot, held + count, model.context)


def check_limits(context: int | None, max_memory: int | None) -> None:
    """OptionError unless both are positive whole numbers, or None."""
    if context is not None and not (is_whole(context) and context > 0):
        raise OptionError(f"context must be at least 1, not {context!r}")
    if max_memory is not None and not (is_whole(max_memory) and max_memory > 0):
        raise OptionError(f"max_memory must be a positive number of bytes, not {max_memory!r}")


def ending_ids(
    asked: int | Iterable[int] | None, known: int | Iterable[int] | None, vocab_size: int
) -> frozenset[int]:
    """Ids that end a text: those asked for, else those known; OptionError for a bad one asked."""
    found = known if asked is None else asked
    ids = [] if found is None else [found] if isinstance(found, int) else list(found)
    if asked is not None and (bad := [i for i in ids if not 0 <= i < vocab_size]):
        raise OptionError(f"eos {bad[0]} is not an id below vocab_size {vocab_size}")
    return frozenset(int(i) for i in ids if 0 <= i < vocab_size)
