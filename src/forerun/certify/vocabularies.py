"""Tokenizers for tables: a few letters, cut greedily, so that the same text has several writings.

    of_pieces(pieces(4))      0 "a"   1 "b"   2 "aa"   3 "ab"          "aab" -> aa b

The laws behind the ids know nothing of it. Drafters of other vocabularies are certified with it:
the target may write `a` `b` where its tokenizer would have `ab`, and the draft model reads the text
in tokens of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.text.tokenizer import Tokenizer, Vocabulary


class LongestFirst:
    """An encoder that takes the longest piece that fits; letters that no piece begins with are
    lost."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._ids = {piece: i for i, piece in enumerate(pieces)}
        self._longest = max(map(len, pieces), default=0)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        data, ids = text.encode(), list[int]()
        while data:
            sizes = range(self._longest, 0, -1)
            size = next((n for n in sizes if data[:n] in self._ids), 0)
            if size:
                ids.append(self._ids[data[:size]])
            data = data[size or 1 :]
        return ids


def pieces(count: int) -> list[bytes]:
    """a, b, aa, ab, ba, bb, aaa, …: the first `count` of them."""
    letters = str.maketrans("01", "ab")
    return [f"{i + 2:b}"[1:].translate(letters).encode() for i in range(count)]


def of_pieces(pieces: Sequence[bytes], ends: Sequence[str] = ()) -> Tokenizer:
    """A tokenizer of these pieces, and of special tokens of these names behind them, which end a
    text."""
    special = frozenset(range(len(pieces), len(pieces) + len(ends)))
    return Tokenizer(
        Vocabulary(
            encoder=LongestFirst(pieces),
            token_bytes=[*pieces, *(name.encode() for name in ends)],
            special=special,
            eos=special,
        )
    )
