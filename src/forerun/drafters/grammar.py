"""Drafts the tokens that a request's grammar forces: `"name":` where no other key may come.

They are bytes that must come next, as the tokenizer splits them. The same bytes may come in other
tokens, so these are guesses like any other: point masses, verified, and mostly accepted.

What this module does not know: grammars. It asks the request's own what is forced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from forerun.drafters.base import DrafterTraits, DraftRequest, Outlook, refuse_twice
from forerun.models.base import Model
from forerun.numerics.token_tree import Drawn, Proposal

LIKELY = 0.8
"""Pr(a forced token is accepted), before a request has shown it."""


class Forcing(Protocol):
    """What is asked of a grammar; `text.grammar.Matcher` answers."""

    def forced(self, count: int) -> Sequence[int]:
        """At most `count` tokens for what must come after the text committed so far."""
        ...


class GrammarDrafter:
    """A `Drafter` for requests with grammars; for others it has nothing."""

    name = "grammar"
    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False)

    def __init__(self) -> None:
        self._slots: dict[int, Forcing | None] = {}

    def check(self, target: Model) -> None:
        """Any target will do."""

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        refuse_twice(slot, self._slots)
        self._slots[slot] = None

    def follow(self, slot: int, grammar: Forcing) -> None:
        """The request that has just begun has this grammar; the round keeps it up with the text."""
        self._slots[slot] = grammar

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        forced = self._forced(slot, most)
        return Outlook(most=len(forced), chances=(LIKELY,) * len(forced))

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        return [Proposal.point_mass(self._forced(r.slot, r.num_draft)) for r in requests]

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """The grammar itself has been told."""

    def end(self, slot: int) -> None:
        del self._slots[slot]

    def _forced(self, slot: int, most: int) -> Sequence[int]:
        grammar = self._slots[slot]
        return () if grammar is None else grammar.forced(most)
