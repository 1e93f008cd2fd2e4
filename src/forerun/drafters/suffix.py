"""Suffix decoding: continue as the text most often went on after its last tokens.

    longest suffix of the text that stood in it before, m tokens
    next token   x = argmax count(suffix · x)          share = count(suffix · x) / count(suffix)
    go on while  Π shares ≥ least  and  drafted < factor · m

Counts come from a suffix automaton over the request's prompt and output, kept online; in addition,
where asked for, from the texts of earlier requests. Of the two continuations the one with the
larger Σ Π shares, its expected number of accepted tokens, is drafted, the request's own on a tie.
(Oliaro et al. 2024, SuffixDecoding, arXiv 2411.04975, section 3.)

All of it is a function of the prefix: the drafts are point masses, and how many there are is
decided without the verifier's coins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from forerun.drafters.lookup import (
    LookupDrafter,
    RememberingDrafter,
    after_match,
    number,
    probability,
    whole,
)
from forerun.drafters.suffix_automaton import SuffixAutomaton
from forerun.drafters.text_memory import DEPTH, RememberedText, longest_match, votes
from forerun.errors import OptionError

F = TypeVar("F")


class SuffixText(Generic[F]):
    """One request's text as an automaton, the earlier texts it may look into, what was found."""

    def __init__(self, texts: tuple[RememberedText, ...], depth: int, least: float) -> None:
        self.text: list[int] = []
        self._automaton = SuffixAutomaton(depth)
        self._texts, self._least = texts, least
        self._found: tuple[int, list[F]] = (0, [])  # of this text, for so many

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_found": (0, [])}  # a function of the text, whoever asked before

    def read(self, tokens: Sequence[int]) -> None:
        self.text.extend(tokens)
        self._automaton.extend(tokens)
        self._found = (0, [])


class SuffixReader(SuffixText[tuple[int, float]]):
    """The one continuation that is likeliest."""

    def __init__(
        self, texts: tuple[RememberedText, ...], depth: int, factor: float, least: float
    ) -> None:
        super().__init__(texts, depth, least)
        self._factor = factor

    def guess(self, count: int) -> list[int]:
        return [token for token, _ in self._steps(count)]

    def chances(self, count: int) -> list[float]:
        return [chance for _, chance in self._steps(count)]

    def _steps(self, count: int) -> list[tuple[int, float]]:
        """The tokens worth drafting, and the chance of each. Whoever asks for fewer than someone
        before gets the first of those, but beside remembered texts: there the number may decide
        which text is followed."""
        most, steps = self._found
        if self._texts or most < count:
            steps = self._sought(count)
            self._found = (count, steps)
        return steps[:count]

    def _sought(self, count: int) -> list[tuple[int, float]]:
        state, length = self._automaton.context()
        score, steps = self._chain(self._walk(state), length, count)
        if self._texts:
            length, places = longest_match(self._texts, self.text[-DEPTH:])
            recalled, remembered = self._chain(votes(places), length, count)
            if recalled > score:
                return remembered
        return steps

    def _walk(self, state: int) -> Iterator[tuple[int, float]]:
        while (step := self._automaton.follow(state)) is not None:
            token, share, state = step
            yield token, share

    def _chain(
        self, steps: Iterable[tuple[int, float]], length: int, count: int
    ) -> tuple[float, list[tuple[int, float]]]:
        """The steps worth drafting after a match of `length` tokens: Σ Π shares, and each token
        with its chance."""
        path, score, found = 1.0, 0.0, list[tuple[int, float]]()
        for token, share in islice(steps, int(min(count, self._factor * length))):
            path *= share
            if path < self._least:
                break
            score += path
            found.append((token, chance(length + len(found), share)))
        return score, found


def chance(length: int, share: float) -> float:
    """Pr(the likeliest token comes next) after a match of `length` tokens, a `share` of which went
    on with it: less where that is fewer than half."""
    return after_match(length) * min(2 * share, 1.0)


class SuffixDrafter(RememberingDrafter[SuffixReader], LookupDrafter[SuffixReader]):
    """Suffix decoding over prompt and output, and over earlier requests' texts if given memory.

        drafter = SuffixDrafter(memory_bytes=64 << 20)
        drafter.begin(0, [1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2])
        drafter.propose([DraftRequest(slot=0, num_draft=2, ...)])   # 4, 1: after 3, 1, 2 came 4, 1

    memory_bytes     limit of the memory of earlier requests, see `RememberingDrafter`; 0: none
    max_match        most last tokens that are matched
    draft_factor     at most this many tokens drafted for each token matched
    min_probability  stop before the estimated probability of the whole draft falls below it

    Ties go to the more recent continuation. OptionError for values out of range.
    """

    name = "suffix"

    def __init__(
        self,
        *,
        memory_bytes: int = 0,
        max_match: int = 32,
        draft_factor: float = 2.0,
        min_probability: float = 0.2,
    ) -> None:
        super().__init__(memory_bytes)
        self._max_match = whole("max_match", max_match, 1)
        self._factor = number(draft_factor)
        if not 0 < self._factor < math.inf:
            raise OptionError(f"draft_factor must be finite and above 0, not {draft_factor!r}")
        self._least = probability("min_probability", min_probability)

    def reader(self, prompt: Sequence[int], recalled: str | None) -> SuffixReader:
        texts = self.recalled(recalled)
        reader = SuffixReader(texts, self._max_match, self._factor, self._least)
        reader.read(prompt)
        return reader
