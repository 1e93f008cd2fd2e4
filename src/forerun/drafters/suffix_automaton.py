"""All substrings of a growing text, with how often each occurred: a suffix automaton with counts.

A state stands for the substrings that end at the same places in the text; its `link` leads to the
longest shorter suffix that also ends elsewhere, and `next` to the state after one more token:

    text  a b a b         link path of the whole text:   abab → ab → (root)
    state {ab, b} occurred twice; state {aba, ba} once; both continue: ab → a, aba → b

There are at most 2n states and 3n transitions for n tokens, built online. (Blumer et al. 1985.)

Counts are kept exact for strings of up to depth + 1 tokens only, which bounds the work per token:
one step up the link path raises every suffix of the text. `best` is each state's most frequent next
token, ties to the more recent; it can only change for the suffixes of the text that the new token
follows, so it is kept in the same walk.

The automaton is a function of the text: however it was cut into pieces, equal texts give equal
states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

ROOT = 0
NONE = -1  # no link, no best token


class SuffixAutomaton:
    """Substrings of up to `depth` tokens, what followed them, and how often."""

    def __init__(self, depth: int = 32) -> None:
        self.depth = depth
        self._length = [0]  # of the longest substring in each state
        self._link = [NONE]
        self._next: list[dict[int, int]] = [{}]
        self._count = [0]  # occurrences; exact where the shortest substring has at most depth + 1
        self._best = [NONE]
        self._last = ROOT  # the whole text
        self._tail = ROOT  # its last depth + 1 tokens

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens. Amortised O(1) each, and at most 2·depth steps to count."""
        for token in tokens:
            self._append(token)
            self._count_suffixes(token)

    def context(self) -> tuple[int, int]:
        """The state of the longest suffix that something followed before, and its length.

        (ROOT, 0) where the last token is new. The length is at most `depth`.
        """
        state = self._within(self._tail)
        while state and self._best[state] == NONE:
            state = self._link[state]
        return state, min(self._length[state], self.depth)

    def follow(self, state: int) -> tuple[int, float, int] | None:
        """The token that most often came next, its share of the occurrences, the state after it.

        An occurrence at the text's end counts among the occurrences although nothing followed it:
        a continuation seen n times out of n has a share of n / (n + 1), so once is worth a half.
        Where a state's substrings stand at the text's end only, shorter suffixes are asked, now
        without that occurrence (a repeating text goes on repeating); None where they know nothing.
        """
        ended = 0
        while state and self._best[state] == NONE:
            state, ended = self._link[state], 1
        if state == ROOT:
            return None
        token = self._best[state]
        after = self._next[state][token]
        return token, self._count[after] / (self._count[state] - ended), self._within(after)

    def contexts(self, state: int, length: int) -> Iterator[tuple[int, int]]:
        """Of a string of `length` tokens in `state` and its shorter suffixes those that something
        followed, the longest of each state: the states and lengths, longest first."""
        while state != ROOT:
            if self._best[state] != NONE:
                yield state, length
            state = self._link[state]
            length = self._length[state]

    def followers(self, state: int) -> Iterator[tuple[int, int]]:
        """What came next and how often, the token of `follow` first, then the most counted."""
        best, after, count = self._best[state], self._next[state], self._count
        if best == NONE:
            return
        yield best, count[after[best]]
        if len(after) > 1:
            others = [(token, count[to]) for token, to in after.items() if token != best]
            yield from sorted(others, key=lambda pair: -pair[1])

    def followed(self, state: int) -> int:
        """Occurrences that something followed."""
        return sum(self._count[to] for to in self._next[state].values())

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """State and length after one more token: of the longest suffix that `token` followed."""
        for at, matched in self.contexts(state, length):
            if (after := self._next[at].get(token, NONE)) != NONE:
                return self._within(after), min(matched + 1, self.depth)
        after = self._next[ROOT].get(token, ROOT)
        return after, min(after, 1)

    def count(self, tokens: Iterable[int]) -> int:
        """How often a string of 1 to depth + 1 tokens occurred; 0 for one that did not."""
        state = ROOT
        for token in tokens:
            if (state := self._next[state].get(token, NONE)) == NONE:
                return 0
        return self._count[state]

    def _within(self, state: int) -> int:
        """The state, or its link where the state's substrings are all longer than `depth`."""
        link = self._link[state]
        return link if link != NONE and self._length[link] >= self.depth else state

    def _append(self, token: int) -> None:
        length, link, next_ = self._length, self._link, self._next
        new = self._state(length[self._last] + 1, ROOT, {}, 0, NONE)
        at = self._last
        while at != NONE and token not in next_[at]:
            next_[at][token] = new
            at = link[at]
        if at != NONE:
            old = next_[at][token]
            whole = length[old] == length[at] + 1
            link[new] = old if whole else self._split(old, at, token)
        self._last = new

    def _split(self, old: int, at: int, token: int) -> int:
        """Give the substrings of `old` that are also suffixes of the new text their own state."""
        link, next_, longest = self._link, self._next, self._length[at] + 1
        short = self._state(longest, link[old], dict(next_[old]), self._count[old], self._best[old])
        link[old] = short
        while at != NONE and next_[at].get(token) == old:
            next_[at][token] = short
            at = link[at]
        # `_tail` may be `old`, and its suffix now in `short`: then both end in a run of `token`, a
        # first of its length, `new` links to `short`, and counting finds the way there by itself
        return short

    def _state(self, length: int, link: int, next_: dict[int, int], count: int, best: int) -> int:
        self._length.append(length)
        self._link.append(link)
        self._next.append(next_)
        self._count.append(count)
        self._best.append(best)
        return len(self._length) - 1

    def _count_suffixes(self, token: int) -> None:
        """Each suffix of the text occurred once more; those of before were followed once more."""
        link, next_, count, best = self._link, self._next, self._count, self._best
        before, tail = self._tail, self._next[self._tail][token]
        if self._length[link[tail]] > self.depth:
            tail = link[tail]
        self._tail = state = tail
        while state:
            count[state] += 1
            state = link[state]
        state = self._within(before)
        while state:
            known = best[state]
            after = next_[state]
            if known == NONE or count[after[token]] >= count[after[known]]:
                best[state] = token
            state = link[state]
