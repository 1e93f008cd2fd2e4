"""What turns text into ids: one method, and the `tokenizers` library behind it.

An encoder knows tokens and how they merge. It does not check its text, put BOS before it, or turn
ids into text again: `tokenizer.py` does.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Encoder(Protocol):
    """Shared between threads, and pickled with its vocabulary."""

    def encode(self, text: str, *, special: bool) -> list[int]:
        """The ids of `text`, without BOS; `special` says whether it spells special tokens."""
        ...


class LibraryEncoder:
    """A `tokenizers.Tokenizer`."""

    def __init__(self, library: Any) -> None:
        self.library = library
        library.no_truncation()
        library.no_padding()
        self._lock = threading.Lock()  # `encode_special_tokens` is a switch of the library's object

    def __reduce__(self) -> tuple[type[LibraryEncoder], tuple[Any]]:
        return LibraryEncoder, (self.library,)

    def encode(self, text: str, *, special: bool) -> list[int]:
        with self._lock:
            self.library.encode_special_tokens = not special
            # of its methods this one alone lets other threads run meanwhile
            batch = self.library.encode_batch_fast([text], add_special_tokens=False)
        found: list[int] = batch[0].ids
        return found
