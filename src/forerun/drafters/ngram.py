"""Prompt lookup: what followed the last few tokens when they stood in the text before.

    text            the cat sat on the mat . the cat
    last 2 tokens                            the cat
    seen before     the cat
    draft, γ = 3            sat on the

Try the last `longest` tokens, then one less, down to `shortest`; take the most recent occurrence
and copy on from there. (Saxena 2023, prompt lookup decoding.) An occurrence close to the end is
copied over itself, as in LZ77: after `a b a b a b` the draft goes on `a b a b`, not just to the
text's end.

The index is kept as the text grows, so a round costs O(longest) per new token however long the
text.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.drafters.lookup import LookupDrafter, after_match, whole
from forerun.errors import OptionError

COMPARED = 32  # most tokens compared to say how good a place is


class NgramReader:
    """Text, and for each n where the tokens after its n-grams begin.

    `after[n][gram]` is the index behind the most recent occurrence of `gram` that something
    follows:

        text        5 6 5 7 5          (indices 0 to 4)
        after[1]    {5: 3, 6: 2, 7: 4}     the 5 at the end is not in it yet: it has no next token
        guess(2)    last token 5, found before index 3: text[3:5] = 7 5
    """

    def __init__(self, longest: int, shortest: int) -> None:
        self.text: list[int] = []
        self.after: dict[int, dict[tuple[int, ...], int]] = {
            n: {} for n in range(longest, shortest - 1, -1)
        }

    def read(self, tokens: Sequence[int]) -> None:
        text = self.text
        for token in tokens:
            end = len(text)  # the grams that end here get their next token
            for n, after in self.after.items():
                if n <= end:
                    after[tuple(text[end - n :])] = end
            text.append(token)

    def guess(self, count: int) -> list[int]:
        text = self.text
        if (start := self._place()) is None:
            return []
        period = len(text) - start
        return [text[start + i % period] for i in range(count)]

    def chances(self, count: int) -> list[float]:
        """By how far the text before the place agrees; each token that comes true adds one."""
        text = self.text
        if (start := self._place()) is None:
            return []
        length = 1
        while length < min(start, COMPARED) and text[start - length - 1] == text[-length - 1]:
            length += 1
        return [after_match(length + i) for i in range(count)]

    def _place(self) -> int | None:
        """The index behind the place to copy from."""
        text = self.text
        for n, after in self.after.items():
            start = after.get(tuple(text[-n:])) if n <= len(text) else None
            if start is not None:
                return start
        return None


class NgramDrafter(LookupDrafter[NgramReader]):
    """Prompt lookup over prompt and output. Needs no model, no memory, no training.

        drafter = NgramDrafter(longest=3, shortest=1)
        drafter.begin(0, [1, 2, 3, 4, 1, 2])
        drafter.propose([DraftRequest(slot=0, num_draft=3, ...)])   # 3, 4, 1: what followed (1, 2)

    `longest` and `shortest` are the numbers of last tokens tried, 1 ≤ shortest ≤ longest; longer
    ones come first and guess better, shorter ones guess more often. OptionError for anything else.
    """

    name = "ngram"

    def __init__(self, *, longest: int = 3, shortest: int = 1) -> None:
        super().__init__()
        longest, shortest = whole("longest", longest, 1), whole("shortest", shortest, 1)
        if shortest > longest:
            raise OptionError(f"shortest ({shortest}) must be at most longest ({longest})")
        self._longest, self._shortest = longest, shortest

    def reader(self, prompt: Sequence[int], recalled: str | None) -> NgramReader:
        reader = NgramReader(self._longest, self._shortest)
        reader.read(prompt)
        return reader
