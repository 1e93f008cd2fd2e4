"""What the law's test says, in figures and in words. Never a bare "passed".

    no fault found in 81,920 tokens (false alarm ≤ 1e-06; e-value 0.3); excluded at 1e-06: lenience,
    draft mixture, … of mean TV ≥ 0.01; sup|G(u) − u| ≤ 0.014

What this module does not know: how the figures come about (`law_test.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

SHARE = 0.5
"""Of a text's tokens, at least this many are drafted places where every round drafts: a round of
γ ≥ 1 has at most one bonus, behind γ drafted places."""


@dataclass(frozen=True, kw_only=True)
class AlternativeVerdict:
    """One named fault: how much of it there may still be."""

    name: str
    tokens: int  # positions at which it would act
    mean_tv: float  # of the fault at full strength, over those positions
    bound: float
    """Time-uniform upper bound of the mean TV by which the engine has moved towards the fault: it
    holds at all times at once but for a chance of `level`. Larger moves are excluded."""
    log_e: float  # natural log of the e-value FOR this fault, against losslessness
    claim: float  # smallest mean TV that is of interest

    @property
    def excluded(self) -> bool:
        """Whether a move of mean TV ≥ `claim` is excluded."""
        return self.bound <= self.claim

    @property
    def excluded_as_it_is(self) -> bool:
        """Whether the fault as it is named is excluded, if it acts at `SHARE` of the places or
        more: the others are bonus tokens, which it may leave alone."""
        return self.bound <= SHARE * self.mean_tv


@dataclass(frozen=True, kw_only=True)
class BetVerdict:
    """One family of bets against losslessness."""

    name: str  # as "order by q/p, by context"
    log_e: float  # natural logarithm of its e-value


@dataclass(frozen=True, kw_only=True)
class ZeroToken:
    """A token that the target never writes, and the engine wrote."""

    sequence: int
    position: int
    token: int


@dataclass(frozen=True, kw_only=True)
class LawVerdict:
    """What the tokens so far say about the law."""

    level: float  # largest chance of a false alarm; the threshold is 1/level
    tokens: int
    sequences: int
    log_e: float  # natural logarithm of the e-value now
    peak_log_e: float  # of its largest value at any look; this decides
    given: float = 0.0  # taken off log e-values, for rounding of the reference's p
    zeros: tuple[ZeroToken, ...] = ()  # the first of them
    zero_count: int = 0
    bets: tuple[BetVerdict, ...] = ()  # strongest first
    alternatives: tuple[AlternativeVerdict, ...] = ()
    band: dict[str, float] = field(default_factory=dict)
    """Order of tokens -> time-uniform bound of sup|G(u) − u|, G being the mean over tokens of the
    law of u, at confidence 1 − level."""

    @property
    def fault(self) -> bool:
        """Whether the law is not the target's."""
        return self.zero_count > 0 or self.peak_log_e >= -math.log(self.level)

    @property
    def excluded(self) -> tuple[AlternativeVerdict, ...]:
        return tuple(each for each in self.alternatives if each.excluded)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        return self._found() if self.fault else self._not_found()

    def _found(self) -> str:
        where = f"in {self.tokens:,} tokens of {self.sequences:,} sequences"
        if self.zero_count:
            first = self.zeros[0]
            return (
                f"not lossless: {self.zero_count:,} emitted with probability 0 {where}, first "
                f"token {first.token} at position {first.position} of sequence {first.sequence}"
            )
        best = self.bets[0].name if self.bets else "no bet"
        return (
            f"not lossless: e-value {power(self.peak_log_e)} {where} (a lossless engine reaches "
            f"{power(-math.log(self.level))} with a chance of at most {self.level:g}); strongest: "
            f"{best}"
        )

    def _not_found(self) -> str:
        parts = [
            f"no fault found in {self.tokens:,} tokens of {self.sequences:,} sequences "
            f"(false alarm ≤ {self.level:g}; e-value {power(self.peak_log_e)})"
        ]
        out = [each for each in self.alternatives if each.excluded]
        if out:
            claim = out[0].claim
            parts.append(f"excluded at {self.level:g}, of mean TV ≥ {claim:g}: {_names(out)}")
        rest = [each for each in self.alternatives if not each.excluded]
        if own := [each for each in rest if each.excluded_as_it_is]:
            parts.append(f"excluded where it acts at half of the places: {_names(own, tv=True)}")
        if left := [each for each in rest if not each.excluded_as_it_is]:
            parts.append(f"not excluded: {_names(left, tv=True)}")
        if not self.alternatives:
            parts.append("no alternative is known, for the draft's law is not")
        if self.band:
            parts.append(f"sup|G(u) − u| ≤ {max(self.band.values()):.2g}")
        if self.given:
            parts.append(
                f"the reference's rounding is paid for: e-values are divided by {power(self.given)}"
            )
        return "; ".join(parts)


def power(log_e: float) -> str:
    """An e-value in words: as a plain number where it is small, else as a power of ten."""
    if log_e == math.inf:
        return "∞"
    tens = log_e / math.log(10)
    return f"{math.exp(log_e):.2g}" if -3 < tens < 4 else f"1e{tens:+.1f}"


def _names(some: Sequence[AlternativeVerdict], *, tv: bool = False) -> str:
    return ", ".join(
        f"{each.name} (mean TV {each.mean_tv:.2g}, bound {each.bound:.2g})" if tv else each.name
        for each in some
    )
