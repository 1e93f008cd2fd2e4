"""What was read once is not read again: cached tokens of earlier texts, found by their content.

    cache = PrefixCache(target, max_bytes=1 << 30)
    known = cache.fetch(tenant, ids, slot)      the slot holds ids[:known] now, without a pass
    cache.store(tenant, ids, slot)              what the slot holds of ids is known from now on

For each tenant a tree of pages of PAGE tokens; a page's place is all the text before it and its own
tokens. Only whole pages have pages below them; the last page of a text may be shorter.

    "You are a … helper." ──┬── "Hello, wh… bytes?" ──── "In C, a … (31 tokens)"
          64 tokens         └── "Hi there!" (12 tokens)

A text that goes on as a page does for a few tokens gets those few. Slots give copies and get copies
(`Model.save`, `restore`), so that a page is never written. Where the bytes would pass the limit,
the least recently used page that nothing is below goes first; a page is used with all before it.

Tenants see nothing of each other's texts, not even by the time it takes: what only another tenant
knows is read anew, and kept twice. What one stores can push out what another stored.

What this module does not know: requests, laws, what the keys and values are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from operator import attrgetter

from forerun.errors import CacheError, CapabilityError, OptionError
from forerun.models.base import Model, Pages
from forerun.sampling import is_whole

PAGE = 64  # tokens


class Node:
    """Where texts of a tenant go on: before their first page, or behind one."""

    def __init__(self) -> None:
        self.below: list[Page] = []  # in the order of their tokens; none begins with another

    def nearest(self, tokens: tuple[int, ...]) -> tuple[Page | None, int]:
        """The page below that shares most first tokens with `tokens`, and how many.

        Of tuples in order, the one that shares most with another is a neighbour of its place.
        """
        place = bisect_left(self.below, tokens, key=_tokens)
        near = self.below[max(place - 1, 0) : place + 1]
        found = [(page, shared(page.tokens, tokens)) for page in near]
        return max(found, key=lambda each: each[1], default=(None, 0))


class Page(Node):
    """Tokens of a text behind those of `parent`, and what the model cached of them."""

    def __init__(self, parent: Node, tokens: tuple[int, ...], pages: Pages) -> None:
        super().__init__()
        self.parent, self.tokens, self.pages = parent, tokens, pages


_tokens = attrgetter("tokens")


def shared(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two texts have in common at the beginning."""
    for i, (one, other) in enumerate(zip(a, b)):
        if one != other:
            return i
    return min(len(a), len(b))


class PrefixCache:
    """Pages of one model's cached tokens, of at most `max_bytes` bytes together.

    bytes        what the pages take now (their tokens' ids, a few thousand bytes a page, left out)
    fetches      how often a prefix was asked for
    hits         how often some of it was known
    hit_tokens   tokens that were known

    CapabilityError for a model that cannot save and restore, OptionError for a `max_bytes` that is
    no whole number of at least 0. Not for several threads at a time.
    """

    def __init__(self, model: Model, max_bytes: int) -> None:
        if not model.abilities.pages:
            raise CapabilityError(
                f"{model.name} cannot save and restore cached tokens, which a prefix cache needs"
            )
        if not is_whole(max_bytes) or max_bytes < 0:
            raise OptionError(
                f"a prefix cache takes a whole number of bytes, 0 or more, not {max_bytes!r}"
            )
        self.max_bytes = int(max_bytes)
        self.bytes = self.fetches = self.hits = self.hit_tokens = 0
        self._model = model
        self._roots: dict[str, Node] = {}
        self._by_use: OrderedDict[Page, None] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        """Pages held."""
        return len(self._by_use)

    def fetch(self, tenant: str, ids: Sequence[int], slot: int) -> int:
        """Restore the longest known prefix of `ids` into the empty slot; how many tokens it has.

        At most len(ids) − 1: the last id is for the pass that the next token comes from. CacheError
        where the slot is not empty, or has no room; then it holds what was restored so far.
        """
        if held := self._model.length(slot):
            raise CacheError(f"a prefix goes into an empty slot; slot {slot} holds {held} tokens")
        self.fetches += 1
        known = 0
        for page, count in list(self._walk(tenant, tuple(ids[:-1]))):
            self._model.restore(slot, page.pages, count)
            self._touch(page)
            known += count
        self.hits += known > 0
        self.hit_tokens += known
        return known

    def known(self, tenant: str, ids: Sequence[int]) -> int:
        """How many tokens `fetch` would restore; nothing is used by it, or counted."""
        return sum(count for _, count in self._walk(tenant, tuple(ids[:-1])))

    def store(self, tenant: str, ids: Sequence[int], slot: int) -> None:
        """Keep copies of what the slot holds, the first tokens of `ids`, as far as they are new.

        CacheError where `ids` are fewer than the slot holds.
        """
        held = self._model.length(slot)
        if held > len(ids):
            raise CacheError(f"slot {slot} holds {held} tokens, of which {len(ids)} are given")
        text = tuple(ids[:held])
        node = self._roots.setdefault(tenant, Node())
        above = 0  # bytes of the pages that the text runs through
        for start in range(0, held, PAGE):
            tokens = text[start : start + PAGE]
            page, same = node.nearest(tokens)
            if page is None or same < len(tokens):
                shorter = page if page is not None and same == len(page.tokens) else None
                try:
                    pages = self._model.save(slot, start, start + len(tokens))
                except CacheError:  # the machine has no memory for a copy
                    break
                if not pages.sound or above + pages.nbytes > self.max_bytes:
                    break
                page = self._add(node, tokens, pages, shorter)
            above += page.pages.nbytes
            self._touch(page)
            node = page
        self._roots = {name: root for name, root in self._roots.items() if root.below}

    def clear(self) -> None:
        """Forget all pages; the counts of hits go on."""
        self._roots.clear()
        self._by_use.clear()
        self.bytes = 0

    def _walk(self, tenant: str, text: tuple[int, ...]) -> Iterator[tuple[Page, int]]:
        """The pages that `text` begins with, and how many tokens of each it has."""
        node = self._roots.get(tenant)
        for start in range(0, len(text), PAGE):
            if node is None:
                return
            page, same = node.nearest(text[start : start + PAGE])
            if page is None or same == 0:
                return
            yield page, same
            node = page if same == PAGE else None

    def _add(
        self, parent: Node, tokens: tuple[int, ...], pages: Pages, shorter: Page | None
    ) -> Page:
        """A new page below `parent`, in place of a `shorter` one that it begins with."""
        if shorter is not None:
            self._drop(shorter)
        while self.bytes + pages.nbytes > self.max_bytes:
            self._drop(next(iter(self._by_use)))
        page = Page(parent, tokens, pages)
        insort(parent.below, page, key=_tokens)
        self._by_use[page] = None
        self.bytes += pages.nbytes
        return page

    def _drop(self, page: Page) -> None:
        """Forget a page that nothing is below."""
        assert not page.below, "a page was dropped from under others"
        del self._by_use[page]
        del page.parent.below[bisect_left(page.parent.below, page.tokens, key=_tokens)]
        self.bytes -= page.pages.nbytes

    def _touch(self, page: Page) -> None:
        """Used now, and all before it: so a page comes later in the order than those below it."""
        node: Node = page
        while isinstance(node, Page):
            self._by_use.move_to_end(node)
            node = node.parent
