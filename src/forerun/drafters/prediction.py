"""The user's own predicted text: follow it, and find the place again after a deviation.

    prediction   A B C D E F        output so far    A B X            (X instead of C)
    draft        … after B: C D     after X: D E     as if one token had been replaced
    next output  C → X was inserted: go on with D        D → replaced: go on with E
                 E → D was deleted as well: go on with F

After a token that was not expected, the places in the prediction where the last output tokens stand
are compared: the longest match wins, then places ahead of where the output left the prediction,
then the nearest. One matching token alone counts only nearby. Where none is found, the tokens since
are taken as replacements, up to `longest` of them; after that nothing is drafted until a place is
found.

For edited code or text (the old version as the prediction) most tokens are accepted in long runs.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from forerun.drafters.lookup import LookupDrafter, whole
from forerun.errors import OptionError, VocabularyError
from forerun.models.base import Model

NEARBY = 16  # tokens from where the output left, within which one matching token is a place
ON_TRACK, OFF_TRACK = 0.9, 0.4  # chances that the next predicted token comes
CANDIDATES = 32  # places compared on each side, the nearest


class Prediction:
    """The predicted tokens, and the indices behind each occurrence of a token."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tuple(tokens)
        self._behind: dict[int, list[int]] = {}
        for i, token in enumerate(self.tokens):
            self._behind.setdefault(token, []).append(i + 1)

    def find(self, tail: Sequence[int], left: int) -> int | None:
        """The index behind the best place of the last tokens `tail`, seen from index `left`."""
        behind = self._behind.get(tail[-1], [])
        middle = bisect_right(behind, left)
        best: tuple[int, bool, int] | None = None
        place = None
        for end in behind[max(0, middle - CANDIDATES) : middle + CANDIDATES]:
            length, away = self._matching(tail, end), abs(end - left)
            rank = (length, end > left, -away)
            if (length > 1 or away <= NEARBY) and (best is None or rank > best):
                best, place = rank, end
        return place

    def _matching(self, tail: Sequence[int], end: int) -> int:
        """How many last tokens of `tail` stand before index `end`."""
        length = 1  # the last one does
        while length < min(len(tail), end) and self.tokens[end - length - 1] == tail[-length - 1]:
            length += 1
        return length


class PredictionReader:
    """Where one request's output stands in the prediction.

    The output agreed with the prediction up to index `left`; `since` tokens came after that.
    """

    def __init__(self, prediction: Prediction, longest: int) -> None:
        self._prediction, self._longest = prediction, longest
        self._tail: list[int] = []  # the last `longest` output tokens
        self.left = 0
        self.since = 0

    def read(self, tokens: Sequence[int]) -> None:
        predicted = self._prediction.tokens
        for token in tokens:
            self._tail = [*self._tail[1 - self._longest :], token] if self._longest > 1 else [token]
            on_track = self.since == 0 and self.left < len(predicted)
            if on_track and predicted[self.left] == token:
                self.left += 1
            elif (place := self._prediction.find(self._tail, self.left)) is not None:
                self.left, self.since = place, 0
            else:
                self.since += 1

    def guess(self, count: int) -> tuple[int, ...]:
        start = self.left + self.since
        return self._prediction.tokens[start : start + count] if self.since <= self._longest else ()

    def chances(self, count: int) -> tuple[float, ...]:
        """High on the track; behind a deviation the first token is as good as a guess."""
        follow = (ON_TRACK,) * len(self.guess(count))
        return follow if self.since == 0 else (OFF_TRACK, *follow[1:])[: len(follow)]


class PredictionDrafter(LookupDrafter[PredictionReader]):
    """Drafts a text predicted by the user, as token ids; every request follows the same one, but
    those that are given their own by `follow`.

        drafter = PredictionDrafter([1, 2, 3, 4, 5])
        drafter.begin(0, prompt)
        drafter.propose([DraftRequest(slot=0, num_draft=2, ...)])   # 1, 2
        drafter.observe(0, [1, 9])                                  # 9 instead of 2: next 3, 4

    `longest` is the number of last output tokens that are compared to find the place again.

    Under `rejection` and `block` with an explicit seed, a prediction must not stem from a run with
    the same seed: it would know the coins that judge it, and the output's law would no longer be
    the target's. Under `coupled`, and so under `auto`, any prediction is safe.
    """

    name = "prediction"

    def __init__(self, tokens: Sequence[int], *, longest: int = 8) -> None:
        super().__init__()
        self._prediction = Prediction(token_ids(tokens))
        self._longest = whole("longest", longest, 1)

    def check(self, target: Model) -> None:
        """VocabularyError if the prediction holds ids that the target does not have."""
        check_known(self._prediction.tokens, target)

    def follow(self, slot: int, tokens: Sequence[int]) -> None:
        """A request that has just begun follows a prediction of its own instead."""
        self._readers[slot] = PredictionReader(Prediction(tokens), self._longest)

    def reader(self, prompt: Sequence[int], recalled: str | None) -> PredictionReader:
        return PredictionReader(self._prediction, self._longest)


def token_ids(tokens: Any) -> tuple[int, ...]:
    """A prediction's ids. OptionError for what is none."""
    if not isinstance(tokens, Iterable):
        raise OptionError(f"a prediction is a list of token ids, not {tokens!r}")
    found = []
    for token in tokens:
        if not _is_id(token):
            raise OptionError(f"a prediction is a list of token ids from 0 up, not {token!r}")
        found.append(int(token))
    return tuple(found)


def check_known(tokens: Sequence[int], target: Model) -> None:
    """VocabularyError for ids that the target does not have."""
    highest = max(tokens, default=-1)
    if highest >= target.vocab_size:
        raise VocabularyError(
            f"the prediction holds id {highest}, but {target.name} has ids below"
            f" {target.vocab_size}: encode it with the target's tokenizer"
        )


def _is_id(token: Any) -> bool:
    try:
        return not isinstance(token, bool) and operator.index(token) >= 0
    except TypeError:
        return False
