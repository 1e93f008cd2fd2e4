"""The prompt of several choices: read by one of them, restored by the others.

    shared = SharedPrompt(n)
    shared.reader(reading, target)      who of them reads for all
    shared.keep(g, target)              it was read: a copy is kept while others need it
    shared.restore(g, target)           another has it without a pass

Where the model cannot save and restore, each reads for itself. What this module does not know:
when it is whose turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from forerun.errors import CacheError
from forerun.generation import Generation
from forerun.models.base import Model, Pages
from forerun.numerics.logprobs import TokenLogprob


class SharedPrompt:
    """`users` choices need it."""

    def __init__(self, users: int) -> None:
        self._users = users
        self._pages: Pages | None = None
        self._found: list[TokenLogprob] = []  # the prompt's logprobs, where asked for

    def reader(self, reading: Sequence[Generation], target: Model) -> Generation | None:
        """Of those that have not read it all, the one that has come farthest: the others wait for
        it. None where nobody need wait."""
        if self._pages is not None or not target.abilities.pages or len(reading) < 2:
            return None
        return max(reading, key=lambda g: target.length(g.slot))

    def restore(self, g: Generation, target: Model) -> None:
        """If a copy is there, put it into g's slot. CacheError where there is no memory for it;
        then the slot is empty."""
        if self._pages is not None and target.length(g.slot) < len(self._pages):
            target.keep(g.slot, 0)
            target.restore(g.slot, self._pages, len(self._pages))
            if not g.prompt_scored:
                g.prompt_found[:] = self._found

    def keep(self, g: Generation, target: Model) -> None:
        """A user has read it. The first one's copy is kept, until all have read it."""
        self.leave()
        if self._users and self._pages is None and target.abilities.pages and g.prompt_length > 1:
            with suppress(CacheError):  # no memory for a copy: the others read for themselves
                self._pages = target.save(g.slot, 0, g.prompt_length - 1)
            self._found = list(g.prompt_found)

    def leave(self) -> None:
        """A user does not need it any more."""
        self._users -= 1
        if not self._users:
            self._pages = None
