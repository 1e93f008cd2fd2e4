"""The clock of a round: how its time divides among the requests that share it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from forerun.trace import Times


class RoundClock:
    """Splits a round's time: each one's share of drafting is known, what was planned beside it and
    the pass are shared alike, verification is each one's own."""

    def __init__(self, sharers: int) -> None:
        self._sharers = sharers
        self._last = perf_counter()
        self._verify = 0.0

    def _since(self) -> float:
        last, self._last = self._last, perf_counter()
        return self._last - last

    def drafted(self, shares: Sequence[float]) -> None:
        self._drafted = sum(shares)
        self.planned = (self._since() - self._drafted) / self._sharers  # seconds of each

    def read(self) -> None:
        self._target = self._since()

    def lap(self, drafted: float) -> Times:
        verify = self._since()
        self._verify += verify
        target = self._target / self._sharers
        return Times(draft=drafted + self.planned, target=target, verify=verify)

    def skip(self) -> None:
        """What was done since is none of the round's: it was for those who look at it."""
        self._since()

    def whole(self) -> Times:
        """Of all of them together, drafting without what was planned beside it."""
        return Times(draft=self._drafted, target=self._target, verify=self._verify)
