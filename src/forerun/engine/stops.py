"""Output followed token by token: its text, what of it may be shown, and where a stop string cuts
it.

The stop that completes first in the text wins; of those that complete at the same character, the
longest. The text is cut before it. So the cut does not depend on how the text was split into tokens
or rounds. A text tail that could still become a stop string is held back from streaming, and so is
half a character; at the end, held-back text is shown and half a character is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Decoder(Protocol):
    """What is needed of `text.tokenizer.StreamDecoder`."""

    def push(self, token: int) -> str:
        """The text that became certain with this token; '' while a character is incomplete."""
        ...


class TextFollower:
    """The text of one output. `hidden` ids (end tokens) take part in no text."""

    def __init__(self, decoder: Decoder, stops: Sequence[str], hidden: frozenset[int]) -> None:
        self.text = ""
        self.ends: list[int] = []  # by token: length of `text` once it was pushed
        self._decoder = decoder
        self._stops = tuple(stops)
        self._hidden = hidden
        self._searched = 0  # stops that end before here have been looked for

    def push(self, token: int, *, may_stop: bool) -> bool:
        """Follow one more token; True if it completes a stop string where the text may stop."""
        if token not in self._hidden:
            self.text += self._decoder.push(token)
        cut = self._first_stop() if may_stop else None
        self._searched = len(self.text)
        if cut is not None:
            self.text = self.text[:cut]
            self.ends = [min(end, cut) for end in self.ends]
        self.ends.append(len(self.text))
        return cut is not None

    def showable(self) -> int:
        """Length of the text that no later token can take back."""
        held = 0
        for stop in self._stops:
            longest = min(len(stop) - 1, len(self.text))
            held = max(
                held, next((n for n in range(longest, 0, -1) if self.text.endswith(stop[:n])), 0)
            )
        return len(self.text) - held

    def _first_stop(self) -> int | None:
        """Start of the stop string that ends first within the newly added text."""
        found: list[tuple[int, int]] = []
        for stop in self._stops:
            start = self.text.find(stop, max(self._searched - len(stop) + 1, 0))
            if start >= 0:
                found.append((start + len(stop), start))
        return min(found)[1] if found else None
