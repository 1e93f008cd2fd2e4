"""How far drafts will survive: s_i = Pr(at least i of the drafted tokens are accepted), estimated
from a request's own rounds.

What this module does not know: what drafting costs, and what is done with the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.drafters.base import Outlook


class Acceptance:
    """Pr(a drafted token is accepted | those before it were): of one drafter in one request.

    Rounds that drafted fewer than i tokens, or accepted fewer than i − 1, say nothing of the i-th.
    Counts are kept for tokens alike: alike in the chance that the drafter gave them or, where it
    gives none, in depth. Where there are few, that chance is believed, or what all depths together
    say; it is worth WEIGHT observations. Old ones count less, and that belief as well: by FADE for
    each new one (each new round, where all depths are together).
    """

    WEIGHT, FADE, FIRST, LEVELS = 3.0, 0.93, 0.75, 10

    def __init__(self) -> None:
        self._counts: dict[int, tuple[float, float]] = {}  # accepted, judged
        self._all = (0.0, 0.0)

    def survival(self, found: Outlook, most: int) -> Sequence[float]:
        """s_1, s_2, … of a draft with that outlook."""
        survival, s, usual = list[float](), 1.0, self._estimate(self._all, self.FIRST)
        for i in range(min(most, found.most)):
            before = usual if found.chances is None else found.chances[i]
            s *= self._estimate(self._counts.get(self._kind(found, i), (0.0, 0.0)), before)
            survival.append(s)
        return survival

    def learn(self, found: Outlook, drafted: int, accepted: int) -> None:
        judged = min(accepted + 1, drafted)
        for i in range(judged):
            kind = self._kind(found, i)
            good, count = self._counts.get(kind, (0.0, 0.0))
            self._counts[kind] = (self.FADE * good + (i < accepted), self.FADE * count + 1)
        good, count = self._all
        self._all = (self.FADE * good + accepted, self.FADE * count + judged)

    def forget(self, rounds: int) -> None:
        """Count what was seen until now as if that many observations had followed."""
        fade = self.FADE**rounds
        self._counts = {kind: (fade * a, fade * n) for kind, (a, n) in self._counts.items()}
        self._all = (fade * self._all[0], fade * self._all[1])

    def _estimate(self, counts: tuple[float, float], before: float) -> float:
        good, judged = counts
        weight = self.WEIGHT * max(1 - judged * (1 - self.FADE), 0.0)
        return (good + weight * before) / (judged + weight)

    def _kind(self, found: Outlook, i: int) -> int:
        return i if found.chances is None else int(found.chances[i] * self.LEVELS)
