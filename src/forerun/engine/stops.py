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
        self._stops = [Stop(stop) for stop in stops]
        self._hidden = hidden

    def push(self, token: int, *, may_stop: bool) -> bool:
        """Follow one more token; True if it completes a stop string where the text may stop."""
        cut = None
        if token not in self._hidden:
            piece = self._decoder.push(token)
            found = [stop.follow(piece) for stop in self._stops]
            self.text += piece
            cut = self._first(found, len(piece)) if may_stop else None
        if cut is not None:
            self.text = self.text[:cut]
            self.ends = [min(end, cut) for end in self.ends]
        self.ends.append(len(self.text))
        return cut is not None

    def showable(self) -> int:
        """Length of the text that no later token can take back."""
        return len(self.text) - max((stop.matched for stop in self._stops), default=0)

    def _first(self, found: Sequence[int | None], added: int) -> int | None:
        """Start of the stop string that ended first, given where in what was added each did."""
        start = len(self.text) - added
        ends = [
            (start + end, start + end - len(stop.stop))
            for stop, end in zip(self._stops, found, strict=True)
            if end is not None
        ]
        return min(ends)[1] if ends else None


class Stop:
    """How much of a stop string's beginning the text ends with, letter by letter; a letter costs
    the same however long the two are (Knuth, Morris and Pratt 1977)."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0  # letters; never all of them
        self._shorter = [0, 0]  # by letters matched: the next shorter match; grows as needed

    def follow(self, piece: str) -> int | None:
        """Follow more text; letters of it up to where the stop is first complete, None if never."""
        if not self.matched and self.stop[0] not in piece:
            return None
        first = None
        for i, letter in enumerate(piece, start=1):
            self.matched = self._longer(self.matched, letter)
            if self.matched == len(self._shorter):
                self._shorter.append(self._longer(self._shorter[-1], letter))
            if self.matched == len(self.stop):
                self.matched = self._shorter[-1]
                first = i if first is None else first
        return first

    def _longer(self, matched: int, letter: str) -> int:
        while matched and self.stop[matched] != letter:
            matched = self._shorter[matched]
        return matched + (self.stop[matched] == letter)
