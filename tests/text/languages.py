"""Small languages said twice: as a grammar, and as a plain function over all short strings.

LANGUAGES["(ab)*c"].oracle.allowed(b"ab")      by trying every string, without llguidance
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forerun.text.grammar import Grammar
from forerun.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Language:
    """`contains` is asked of every string over `alphabet` of up to `longest` bytes."""

    grammar: Grammar
    alphabet: bytes
    longest: int
    contains: Callable[[str], bool]

    @cached_property
    def texts(self) -> frozenset[bytes]:
        letters = [bytes([byte]) for byte in self.alphabet]
        every = (
            b"".join(word)
            for length in range(self.longest + 1)
            for word in itertools.product(letters, repeat=length)
        )
        return frozenset(text for text in every if self.contains(text.decode()))

    @cached_property
    def prefixes(self) -> frozenset[bytes]:
        return frozenset(text[:n] for text in self.texts for n in range(len(text) + 1))

    def allowed(self, tokenizer: Tokenizer, end_ids: frozenset[int], text: bytes) -> np.ndarray:
        """The mask after `text`; right as long as texts of the language go on for a few bytes."""
        pieces = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
        return np.array(
            [
                text in self.texts
                if i in end_ids
                else bool(piece) and text + piece in self.prefixes
                for i, piece in enumerate(pieces)
            ]
        )


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


def _nested(text: str) -> bool:
    """A word of b's in balanced a…c, one at the least."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"a": 1, "b": 0, "c": -1}[letter]
        if depth < 0 or (letter == "c" and text[place - 1] == "a"):
            return False
    return depth == 0 and "b" in text and re.fullmatch("a*b+c*", text) is not None


def _is_list(text: str) -> bool:
    if any(letter in text for letter in " \n"):
        return False
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, list) and len(found) <= 2 and all(x in (1, 12) for x in found)


def _regex(pattern: str, longest: int = 10) -> Language:
    return Language(Grammar.regex(pattern), b"abc", longest, _matches(pattern))


LANGUAGES = {
    "loop": _regex("(ab)*c"),
    "finite": _regex("(a|abc|bca)"),
    "optional": _regex("a?b?c?"),
    "greedy": _regex("a*(ab|ba)c*"),
    "exact": _regex("abcabca"),
    "any": _regex("[abc]*b"),
    "nested": Language(
        Grammar.lark('start: "a" start "c" | bs\nbs: "b" | "b" bs\n'), b"abc", 10, _nested
    ),
    "list": Language(
        Grammar.json_schema(
            {"type": "array", "items": {"enum": [1, 12]}, "maxItems": 2}, whitespace=False
        ),
        b"[]12,",
        7,
        _is_list,
    ),
}
PIECES = (b"a", b"b", b"c", b"ab", b"bc", b"abc", b"a", b"", b"ca")
LIST_PIECES = (b"[", b"]", b"1", b"2", b",", b"12", b"[1", b"],", b",1", b"]")


def pieces(name: str) -> tuple[bytes, ...]:
    return LIST_PIECES if name == "list" else PIECES
