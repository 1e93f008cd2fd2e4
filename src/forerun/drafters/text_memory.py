"""Finished texts, remembered within a byte limit, for drafters that learn from earlier requests.

    memory.add(text, tenant)              a request is over
    seen = memory.texts(tenant)           what a new request may look into, fixed for its whole life
    for token, share in votes(seen, tail): ...

A remembered text never changes, and a request looks only into those that were there when it began:
what others finish meanwhile changes nothing for it. So the same request drafts the same in any
company, as long as it begins with the same memory. It looks into texts of its own tenant alone: the
time that a draft saves would tell one tenant what another wrote.

The least recently used text goes first. A text is used when a finished one repeats it: a quarter of
the new text's places, of a sample, are found in it. (Not when a draft was taken from it: that would
depend on how the text was cut into rounds.) Whose texts take most room loses first, so that one
tenant's many do not drive out another's few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GRAM = 3  # tokens that find a place; shorter matches are not looked for
DEPTH = 16  # tokens compared before it
PLACES = 16  # places that vote, the latest first
SAMPLE = 64  # places of a finished text that tell which texts it repeats

Key = tuple[str, tuple[int, ...]]  # tenant and text

BYTES_PER_TEXT = 1024
BYTES_PER_TOKEN = 210  # measured with tracemalloc, just after a table grew; 100 to 170 as a rule


class RememberedText:
    """One finished text, and where each of its 3-grams occurs.

    `_latest[gram]` is the index behind the gram's last occurrence, `_earlier[i]` the one before
    that of the gram that ends at index i (0: none).
    """

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self.tokens = tokens
        self._latest: dict[tuple[int, ...], int] = {}
        self._earlier: list[int] = [0] * len(tokens)
        for end in range(GRAM, len(tokens)):  # something follows: tokens[end]
            gram = tokens[end - GRAM : end]
            self._earlier[end] = self._latest.get(gram, 0)
            self._latest[gram] = end

    @staticmethod
    def size(count: int) -> int:
        """Bytes that a text of `count` tokens takes."""
        return BYTES_PER_TEXT + BYTES_PER_TOKEN * count

    def __contains__(self, gram: tuple[int, ...]) -> bool:
        return gram in self._latest

    def places(self, gram: tuple[int, ...]) -> Iterator[int]:
        """Indices behind the occurrences of `gram` that something follows, the latest first."""
        end = self._latest.get(gram, 0)
        while end:
            yield end
            end = self._earlier[end]


class TextMemory:
    """Texts by recency of use, of at most `limit` bytes together.

    A text larger than the limit is not remembered; nothing is where the limit is 0. Texts that went
    out stay in the process until the requests that look into them are over. `changes` counts what
    was added or used.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.changes = 0
        self._held: dict[str, int] = {}  # bytes by tenant
        self._texts: dict[Key, RememberedText] = {}  # least recently used first

    def texts(self, tenant: str = "") -> tuple[RememberedText, ...]:
        """The tenant's texts, the most recently used first."""
        found = reversed(self._texts.items())
        return tuple(text for (owner, _), text in found if owner == tenant)

    def add(self, tokens: Sequence[int], tenant: str = "") -> None:
        """Remember a finished text; one that is there already counts as used."""
        key = (tenant, tuple(tokens))
        if RememberedText.size(len(tokens)) > self.limit:
            return
        self.changes += 1
        for used in self._repeated(key):
            self._texts[used] = self._texts.pop(used)
        if known := self._texts.pop(key, None):
            self._texts[tenant, known.tokens] = known
            return
        self._insert(key)

    def restore(self, tokens: Sequence[int], tenant: str) -> None:
        """Remember a text of `snapshot`, as the last one used."""
        key = (tenant, tuple(tokens))
        if RememberedText.size(len(tokens)) <= self.limit and key not in self._texts:
            self._insert(key)

    def snapshot(self) -> list[Key]:
        """Tenant and text of each, the least recently used first. Any thread may ask: the keys are
        copied in one step of the interpreter."""
        return list(self._texts)

    def _insert(self, key: Key) -> None:
        tenant, size = key[0], RememberedText.size(len(key[1]))
        while self.bytes + size > self.limit:
            held = {**self._held, tenant: self._held.get(tenant, 0) + size}
            largest = max((one for one in held if self._held.get(one)), key=held.__getitem__)
            self._drop(next(one for one in self._texts if one[0] == largest))
        self._texts[key] = RememberedText(key[1])
        self.bytes += size
        self._held[tenant] = self._held.get(tenant, 0) + size

    def _drop(self, key: Key) -> None:
        size = RememberedText.size(len(self._texts.pop(key).tokens))
        self.bytes -= size
        self._held[key[0]] -= size
        if not self._held[key[0]]:
            del self._held[key[0]]

    def _repeated(self, key: Key) -> list[Key]:
        """The tenant's texts that share a quarter of the sampled places of this one."""
        tenant, tokens = key
        ends = range(GRAM, len(tokens), max(1, len(tokens) // SAMPLE))
        grams = [tokens[end - GRAM : end] for end in ends]
        return [
            (owner, other)
            for (owner, other), text in self._texts.items()
            if owner == tenant and grams and 4 * sum(gram in text for gram in grams) >= len(grams)
        ]


def longest_match(
    texts: Sequence[RememberedText], tail: Sequence[int]
) -> tuple[int, list[tuple[tuple[int, ...], int]]]:
    """The most last tokens of `tail` found in the texts, and (text, index behind) for each place.

    (0, []) where not even the last GRAM tokens are found. Of the places that match, the first
    PLACES are looked at, texts in the order given and late places before early ones.
    """
    best, found = 0, list[tuple[tuple[int, ...], int]]()
    gram, looked = tuple(tail[-GRAM:]), 0
    most = min(DEPTH, len(tail))
    for text in texts:
        for end in text.places(gram):
            length, tokens = GRAM, text.tokens
            while length < most and length < end and tokens[end - length - 1] == tail[-length - 1]:
                length += 1
            if length > best:
                best, found = length, []
            if length == best:
                found.append((tokens, end))
            if (looked := looked + 1) == PLACES:
                return best, found
    return best, found


def votes(places: Sequence[tuple[tuple[int, ...], int]]) -> Iterator[tuple[int, float]]:
    """What most of the places go on with, token by token, and the share of those that agree so far.

    Ties go to the place that was found first. As in `SuffixAutomaton.follow`, the request's own
    text counts as a place that nothing follows: a continuation seen once starts with a half.
    """
    unknown = 1
    while places:
        count: dict[int, int] = {}
        for tokens, i in places:
            count[tokens[i]] = count.get(tokens[i], 0) + 1
        token = max(count, key=count.__getitem__)  # the first of the largest
        yield token, count[token] / (len(places) + unknown)
        places = [(t, i + 1) for t, i in places if t[i] == token and i + 1 < len(t)]
        unknown = 0
