"""What the drafters that only read text share: a reader for each slot, and point masses.

A reader is told the tokens as they come and guesses the next ones; what it guesses is a function of
the text alone, never of how the text was cut into rounds or of drafts that were rejected. The text
is the state: equal texts give equal readers, whose pickles are equal.

What this module does not know: models, laws, randomness.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from forerun.drafters.base import DrafterTraits, DraftRequest, Outlook, refuse_twice
from forerun.drafters.text_memory import RememberedText, TextMemory
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.numerics.token_tree import Drawn, Proposal
from forerun.sampling import is_whole


class Reader(Protocol):
    """One request's text, as a drafter knows it."""

    def read(self, tokens: Sequence[int]) -> None:
        """The text grew by `tokens`."""
        ...


class ChainReader(Reader, Protocol):
    """One that knows one continuation."""

    def guess(self, count: int) -> Sequence[int]:
        """At most `count` tokens that may come next."""
        ...

    def chances(self, count: int) -> Sequence[float]:
        """For each token of `guess(count)`: Pr(it comes next | those before it did), roughly."""
        ...


class TextReader(Reader, Protocol):
    """One that keeps the text."""

    text: list[int]


R = TypeVar("R", bound=Reader)
C = TypeVar("C", bound=ChainReader)
T = TypeVar("T", bound=TextReader)


class ReadingDrafter(Generic[R]):
    """What a `Drafter` of readers does with them; a subclass says how one is made, and drafts."""

    def __init__(self) -> None:
        self._readers: dict[int, R] = {}

    def reader(self, prompt: Sequence[int], recalled: str | None) -> R:
        """A reader that has read `prompt`. It may look into memory of the tenant `recalled`."""
        raise NotImplementedError

    def check(self, target: Model) -> None:
        """Any target will do: its own ids come back to it."""

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        refuse_twice(slot, self._readers)
        ids = [int(token) for token in prompt]
        self._readers[slot] = self.reader(ids, tenant if recall else None)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        self._readers[slot].read([int(token) for token in committed])

    def end(self, slot: int) -> None:
        del self._readers[slot]


class LookupDrafter(ReadingDrafter[C]):
    """A `Drafter` of chains from readers; a subclass says how a reader is made."""

    name = "lookup"
    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False)

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        chances = tuple(self._readers[slot].chances(most))
        return Outlook(most=len(chances), chances=chances)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        return [Proposal.point_mass(self._chain(request)) for request in requests]

    def _chain(self, request: DraftRequest) -> Sequence[int]:
        guess = self._readers[request.slot].guess(request.num_draft)
        return up_to_end(guess, request.params.end_ids)


class RememberingDrafter(ReadingDrafter[T]):
    """One that may look into the texts of earlier requests as well, in at most `memory_bytes`.

    A remembered token takes about 200 bytes; the limit is one for all tenants. A request looks into
    what was there of its own tenant when it began; one that began with recall=False into none of
    it, though its own text is remembered. OptionError for no number of bytes.
    """

    def __init__(self, memory_bytes: int) -> None:
        super().__init__()
        self.memory = TextMemory(whole("memory_bytes", memory_bytes, 0))
        self._tenants: dict[int, str] = {}

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        super().begin(slot, prompt, recall=recall, tenant=tenant)
        self._tenants[slot] = tenant

    def recalled(self, tenant: str | None) -> tuple[RememberedText, ...]:
        """The texts that a request of that tenant may look into; none for None."""
        return () if tenant is None else self.memory.texts(tenant)

    def end(self, slot: int) -> None:
        self.memory.add(self._readers[slot].text, self._tenants.pop(slot))
        super().end(slot)


def whole(option: str, value: Any, least: int) -> int:
    """OptionError unless `value` is a whole number of at least `least`."""
    if not is_whole(value) or value < least:
        raise OptionError(f"{option} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def number(value: Any) -> float:
    """The value as a float; NaN for what is no number, or too large for one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def probability(option: str, value: Any) -> float:
    """OptionError for what is not between 0 and 1."""
    if not 0 <= (found := number(value)) <= 1:
        raise OptionError(f"{option} must be between 0 and 1, not {value!r}")
    return found


@cache
def after_match(length: int) -> float:
    """Pr(the text goes on as it did where its last `length` tokens stood before), as a rule."""
    return 1 - 0.8 / math.pow(length, 0.8)


def up_to_end(tokens: Sequence[int], end_ids: Collection[int]) -> Sequence[int]:
    """The tokens up to the first that ends the text, that one included: nothing follows an end."""
    for i, token in enumerate(tokens):
        if token in end_ids:
            return tokens[: i + 1]
    return tokens
