"""SentencePiece's BPE: merging by the scores of tokens, with bytes for what has no token.

A text starts as its characters, spaces written `▁`. Then, over and over, of all neighbours a, b
whose joint text ab is a token, the pair with the highest score(ab) becomes that token; of equal
scores the leftmost. What is no token in the end becomes its bytes, `<0xE2> <0x82> <0xAC>`.

    scores: ab -1, bc -2, abc -3, ▁a -4        " abc"  ->  ▁ a b c  ->  ▁ ab c  ->  ▁ abc

Some tokens are taken whole, before any merging: user-defined ones in every text, special ones where
they are asked for; from left to right, the longest first. Where a space belongs before every text,
one comes before each stretch between such tokens, as llama.cpp does it.

The `tokenizers` library merges by a list of pairs, each with a rank of its own. Equal scores and
several ways to one token have no such rank (with ab and bc alike, "abc" is ab c and "bcab" is
bc ab), and its characters must be tokens before they merge. So merging is done here.

    cut where nothing can merge: before `▁`, unless some token holds that very pair of characters;
    merge each such word on its own, once: common words are remembered.

This module does not know where tokens come from (`sentencepiece.py`), nor how ids become text.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SPACE = "▁"  # U+2581, as SentencePiece writes a space
_REMEMBERED, _LONGEST = 1 << 16, 64  # words in the memory, and characters in each


class ScoreMerges:
    """An `Encoder` of SentencePiece's kind."""

    def __init__(
        self,
        *,
        ids: Mapping[str, int],
        scores: Sequence[float],
        byte_ids: Sequence[int],
        whole: Mapping[str, int],
        whole_if_special: Mapping[str, int],
        space_first: bool,
    ) -> None:
        """`ids` of the tokens that merging may reach, `scores` by id, `byte_ids` by byte."""
        self._ids, self._byte_ids = ids, byte_ids
        self._costs = [-score for score in scores]  # heaps give the lowest first
        self._whole = {
            False: _WholeTokens(whole),
            True: _WholeTokens({**whole, **whole_if_special}),
        }
        self._first = SPACE if space_first else ""
        self._words = _word_beginnings(ids)
        self._known: dict[str, list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}

    def encode(self, text: str, *, special: bool) -> list[int]:
        found: list[int] = []
        for stretch, token in self._whole[special].cut(text):
            if stretch:
                marked = self._first + stretch.replace(" ", SPACE)
                for word in self._words.split(marked):
                    found += self._known.get(word) or self._learn(word)
            if token is not None:
                found.append(token)
        return found

    def _learn(self, word: str) -> list[int]:
        found: list[int] = []
        for part in self._merge(word):
            token = self._ids.get(part)
            found += [self._byte_ids[b] for b in part.encode()] if token is None else [token]
        if len(word) <= _LONGEST:
            if len(self._known) >= _REMEMBERED:
                self._known = {}
            self._known[word] = found
        return found

    def _merge(self, word: str) -> list[str]:
        """The parts left when nothing merges any more.

        A merged pair stands at its left place, and its right place is empty. The heap may hold
        pairs that are gone: one of their places is empty, or has grown.
        """
        parts = list(word)
        before, after = list(range(-1, len(parts) - 1)), list(range(1, len(parts) + 1))
        heap: list[tuple[float, int, int, str]] = []  # -score, left, right, both

        def consider(left: int, right: int) -> None:
            token = self._ids.get(both := parts[left] + parts[right])
            if token is not None:
                heapq.heappush(heap, (self._costs[token], left, right, both))

        for right in range(1, len(parts)):
            consider(right - 1, right)
        while heap:
            _, left, right, both = heapq.heappop(heap)
            gone = not parts[left] or not parts[right]
            if gone or len(parts[left]) + len(parts[right]) != len(both):
                continue
            parts[left], parts[right] = both, ""
            after[left] = following = after[right]
            if before[left] >= 0:
                consider(before[left], left)
            if following < len(parts):
                before[following] = left
                consider(left, following)
        return [part for part in parts if part]


class _WholeTokens:
    """Finds tokens in a text by their names: the leftmost, and of those the longest."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = ids
        lengths: dict[str, set[int]] = {}  # by the first two letters, which most places rule out
        for name in ids:
            lengths.setdefault(name[:2], set()).add(len(name))
        for head, found in lengths.items():
            if head[0] in ids:
                found.add(1)
        self._lengths = {head: sorted(found, reverse=True) for head, found in lengths.items()}
        heads = sorted(map(re.escape, lengths), key=len, reverse=True)
        self._heads = re.compile("|".join(heads)) if heads else None

    def cut(self, text: str) -> Iterator[tuple[str, int | None]]:
        """The text in stretches, each with the token after it; the last has none after it."""
        start = at = 0
        while self._heads and (head := self._heads.search(text, at)):
            at = head.start()
            for length in self._lengths[head[0]]:
                name = text[at : at + length]
                if name in self._ids:
                    yield text[start:at], self._ids[name]
                    start = at = at + len(name)
                    break
            else:
                at += 1
        yield text[start:], None


def _word_beginnings(tokens: Iterable[str]) -> re.Pattern[str]:
    """Matches before every `▁` that no token joins to the character before it."""
    inner = re.compile(f".(?={SPACE})", re.DOTALL)
    joined = {SPACE}.union(*(inner.findall(token) for token in tokens if SPACE in token[1:]))
    return re.compile(f"(?<=[^{''.join(map(re.escape, sorted(joined)))}])(?={SPACE})")
