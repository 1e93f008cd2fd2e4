"""Which replicas have read how texts begin.

    text   │ block │ block │ block │ rest      a key for each block, made of all up to it
           └ key 1 └ key 2 └ key 3

    table  key -> those who read it, the last one first

A replica's own cache forgets, and this table does not hear of it; the oldest keys go from here as
well. It costs a prompt that is read once more, never a token.

Of a beginning that nobody is known to have read, its first block names two replicas, by hash, the
same two in every router: so several routers need not talk with each other to agree.

What this module does not know: Ray, how busy a replica is.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from forerun.engine import Prompt
from forerun.engine.prompt import is_chat

LETTERS, IDS = 256, 64  # of a block, of text and of ids: about as many tokens
BLOCKS = 64  # of a text, at most
KEYS = 1 << 16  # that are remembered
HOLDERS = 4  # of a key

Name = TypeVar("Name", bound=Hashable)
Key = bytes


def keys(tenant: str, prompt: Prompt) -> list[Key]:
    """Of a prompt's blocks, the shortest beginning first; one for what is shorter than a block."""
    raw, size = _bytes(prompt)
    digest = hashlib.blake2b(tenant.encode() + b"\0", digest_size=16)
    found = []
    for start in range(0, max(min(len(raw), BLOCKS * size), 1), size):
        if start and start + size > len(raw):
            break
        digest.update(raw[start : start + size])
        found.append(digest.digest())
    return found


def _bytes(prompt: Prompt) -> tuple[bytes, int]:
    """What a prompt says, and how much of it is a block."""
    if isinstance(prompt, str):
        return prompt.encode(errors="surrogatepass"), LETTERS
    if is_chat(prompt):
        said = [(one.get("role"), one.get("content")) for one in prompt]  # type: ignore[union-attr]
        return repr(said).encode(errors="surrogatepass"), LETTERS
    return np.array(prompt, np.int64).tobytes(), 8 * IDS


def named(key: Key, replicas: Sequence[Name], count: int = 2) -> list[Name]:
    """Those of `replicas` that a key falls to, the first one first. Where one comes or goes, only
    its own keys move (rendezvous hashing: Thaler and Ravishankar 1998)."""

    def weight(name: Name) -> bytes:
        return hashlib.blake2b(key + str(name).encode(), digest_size=16).digest()

    return sorted(replicas, key=weight)[:count]


class Prefixes(Generic[Name]):
    """Who read what."""

    def __init__(self, most: int = KEYS) -> None:
        self._most = most
        self._holders: OrderedDict[Key, list[Name]] = OrderedDict()

    def note(self, keys: Sequence[Key], replica: Name) -> None:
        """It reads a text with these keys."""
        for key in keys:
            others = (one for one in self._holders.pop(key, []) if one != replica)
            self._holders[key] = [replica, *islice(others, HOLDERS - 1)]
        while len(self._holders) > self._most:
            self._holders.popitem(last=False)

    def holders(self, keys: Sequence[Key], replicas: Sequence[Name]) -> list[Name]:
        """Of `replicas`, those that read the longest beginning that any of them has read."""
        there = set(replicas)
        for key in reversed(keys):
            if found := [one for one in self._holders.get(key, ()) if one in there]:
                return found
        return []
