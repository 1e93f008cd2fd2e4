"""Follows one output through its grammar: masks after drafted paths, and what must come next.

A path is walked by advancing the library's matcher and rolling it back. Masks are remembered until
a token is pushed, so that branches of a tree, and a drafter before the target, share them. Where
the library gives up, a new matcher is asked before the path is given up.

What this module does not know: how a grammar is written and compiled (`grammar.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from forerun.errors import GrammarError, LawError

if TYPE_CHECKING:
    from forerun.text.grammar import CompiledGrammar

Asked = TypeVar("Asked")
Mask = NDArray[np.bool_]
"""Of each of V tokens, whether it is allowed. Not to be changed."""

MOST_SPELLINGS = 256
"""More tokens than that are not all beginnings of one."""


@dataclass(kw_only=True)
class Matcher:
    """Where an output stands in its grammar. Pickles as its tokens."""

    compiled: CompiledGrammar
    vocab_size: int
    end_ids: frozenset[int]
    tokens: list[int] = field(default_factory=list)  # pushed

    def __post_init__(self) -> None:
        self._masks: dict[tuple[int, ...], Mask | LawError] = {}
        self._ahead: list[int] = []  # drafted tokens the library's matcher stands behind
        self._matcher = self.compiled.prototype.deep_copy()
        self._matcher.try_consume_tokens(self.tokens)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def allowed(self, path: tuple[int, ...]) -> Mask:
        """The mask [V] after `path`. LawError where the grammar refuses one of its tokens, an end
        token among them; GrammarError where it grows too complex to follow."""
        found = self._masks.get(path)
        if found is None:
            try:
                found = self._behind(path, self._mask)
            except LawError as error:
                found = error
            self._masks[path] = found
        if isinstance(found, LawError):
            raise found
        return found

    def forced(self, count: int) -> tuple[int, ...]:
        """At most `count` tokens for the bytes that must come next, as the tokenizer splits them.
        A guess: the same bytes may come in other tokens.

        Found by masks, which the laws need too: the library's own way has no end where a grammar
        forces a million bytes, and holds Python's lock.
        """
        guide = self.compiled.guide
        path: tuple[int, ...] = ()
        while len(path) < count and (token := self._only(path)) is not None:
            path = (*path, token)
        return tuple(guide.split(path)[:count])

    def push(self, token: int) -> None:
        """`token` was committed; an end token ends the text and moves nothing."""
        if token in self.end_ids:
            return
        try:
            if self._ahead[:1] != [token]:
                self._walk((token,))
            del self._ahead[0]
        except GrammarError:
            self._ahead = []  # whoever asks next begins anew, behind all that was pushed
        self.tokens.append(token)
        self._masks.clear()

    def _only(self, path: tuple[int, ...]) -> int | None:
        """The longest token after `path`, if all others allowed are its beginnings."""
        try:
            mask = self.allowed(path)
        except LawError:
            return None
        if not 0 < np.count_nonzero(mask) <= MOST_SPELLINGS:
            return None
        ids = [int(i) for i in np.flatnonzero(mask)]
        pieces = [self.compiled.guide.token_bytes(i) for i in ids]
        longest = max(pieces, key=len)
        one = all(pieces) and all(longest.startswith(piece) for piece in pieces)
        return ids[pieces.index(longest)] if one and not self.end_ids.intersection(ids) else None

    def _behind(self, path: tuple[int, ...], ask: Callable[[], Asked]) -> Asked:
        """What the library's matcher says behind `path`. Where it gives up, a new one is asked: it
        may be worn out by paths that were not taken, and by other choices of the request."""
        try:
            self._walk(path)
            return ask()
        except GrammarError:
            self._renew()
            self._walk(path)
            return ask()

    def _walk(self, path: tuple[int, ...]) -> None:
        """Move the library's matcher to stand behind `path`."""
        if self._matcher.is_error():
            self._renew()
        same = 0
        while same < min(len(self._ahead), len(path)) and self._ahead[same] == path[same]:
            same += 1
        if back := len(self._ahead) - same:
            del self._ahead[same:]
            if not self._matcher.rollback(back):  # it stumbled over something too complex
                self._renew()
                same = 0
        rest = path[same:]
        ends = (i for i, token in enumerate(rest) if token in self.end_ids)
        most = next(ends, len(rest))
        taken = self._matcher.try_consume_tokens(list(rest[:most]))
        self._ahead += rest[:taken]
        if taken < len(rest):
            self._check()
            raise LawError(f"the {self.compiled.grammar.kind} does not allow token {rest[taken]}")

    def _mask(self) -> Mask:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        known = min(self.vocab_size, self.compiled.guide.vocab_size)
        mask = np.zeros(self.vocab_size, np.bool_)
        mask[:known] = np.unpackbits(bits, bitorder="little", count=known)
        mask[list(self.end_ids)] = self._matcher.is_accepting()
        return mask

    def _check(self) -> None:
        """GrammarError if the library cannot follow this path; its matcher is of no more use."""
        if self._matcher.is_error():
            message = tidied(self._matcher.get_error())
            raise GrammarError(f"the {self.compiled.grammar.kind} cannot be followed: {message}")

    def _renew(self) -> None:
        """A matcher with a lexer of its own, behind the tokens pushed."""
        self._ahead = []
        self._matcher = self.compiled.anew()
        self._matcher.try_consume_tokens(self.tokens)
        self._check()


def tidied(message: str) -> str:
    """The library's message without the line it made of a regex, or its own state."""
    message = message.split("\n<state>")[0]
    message = message.replace("NoExtensionBias", "no text goes on from here")
    message = re.sub(r"^at 1\(8\): (?=invalid regex)", "", message)
    return re.sub(r"\n +1 \| start: /.*\n +\^\s*$", "", message).strip()
