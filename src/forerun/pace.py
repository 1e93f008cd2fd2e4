"""What a round of one request takes: the measured costs, corrected by the times of its own rounds.

    seconds(γ) = τ_p(1+γ) + τ_q(γ) + (1+γ)·τ_v

τ_p   the target's pass: the table of `models/cost.py`, times observed ÷ expected at that width
τ_q   drafting: passes of the draft model by its own table, times one ratio; a lookup costs what it
      took per token
τ_v   judging a row: what it took

The table was measured behind a short text on a machine with other load. So the last times of each
width are compared with it; between widths the ratio is interpolated, and widths not seen for FORGET
rounds are forgotten. Medians throughout: one slow pass changes nothing.

What this module does not know: that requests of a batch share their passes. Each compares its share
with the cost of its own rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forerun.drafters.base import Drafter, parts
from forerun.drafters.lookup import number as as_number
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.cost import CACHED, WIDEST, stated, target_seconds
from forerun.trace import Times

FEW, MANY = 5, 15  # last times that are kept: of a width, of anything else
FORGET = 64  # rounds


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of passes over 1, 2, … rows: the target's, and those of drafters that run a model.

    `fixed` costs are believed as they are, and drafting that `draft` does not name is free; others
    are corrected by the times of a request's rounds.
    """

    target: tuple[float, ...]
    draft: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    fixed: bool = False

    @classmethod
    def measured(cls, target: Model, drafter: Drafter | None, cache: Path | None = None) -> Costs:
        """Of these models, as far as they do not state their own. See `models/cost.py`."""
        models = {name: getattr(part, "model", None) for name, part in parts(drafter).items()}
        return cls(
            target=target_seconds(target, cache=cache) or (1.0,),  # no room: nothing is drafted
            draft={
                name: target_seconds(model, cache=cache)
                for name, model in models.items()
                if model is not None
            },
            fixed=stated(target) is not None,
        )

    @property
    def widest(self) -> int:
        """Rows of the widest pass that is known."""
        return min(len(self.target), WIDEST)


def checked_costs(costs: Costs | Sequence[float]) -> Costs:
    """Costs as a user gives them: `Costs`, or the target's seconds alone, which are then fixed.

    OptionError for seconds that are none.
    """
    if not isinstance(costs, Costs):
        if isinstance(costs, (str, bytes)) or not isinstance(costs, Iterable):
            raise OptionError(f"costs are seconds of a pass over 1, 2, … rows, not {costs!r}")
        costs = Costs(target=tuple(costs), fixed=True)
    for seconds in (costs.target, *costs.draft.values()):
        if not seconds:
            raise OptionError("costs need the seconds of a pass over one row at least")
        for value in seconds:
            if not 0 < as_number(value) < 1e6:
                raise OptionError(f"costs are seconds above 0, not {value!r}")
    return costs


class Pace:
    """Expected seconds, kept up to date by `learn`."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._round = 0
        self._widths: dict[int, _Last] = {}  # observed ÷ expected by width of the pass
        self._ratios: dict[str, _Last] = {}  # observed ÷ expected by drafter
        self._verify = _Last(MANY)  # seconds a row
        self._rows: list[float] | None = None  # by rows − 1; None: to be made again

    def unsure(self, length: int) -> bool:
        """Whether a plain pass is due, to compare others with: long texts change the proportions,
        and so may what else the machine does."""
        if self.costs.fixed or 1 in self._widths:
            return False
        return self._round >= FORGET or length > 2 * CACHED

    def rows(self) -> Sequence[float]:
        """Seconds of passing and judging 1, 2, … rows."""
        if self._rows is None:
            ratios, verify = self._by_width(), self._verify.median(0.0)
            self._rows = [
                seconds * ratio + n * verify
                for n, (seconds, ratio) in enumerate(zip(self.costs.target, ratios), start=1)
            ]
        return self._rows

    def drafting(self, drafter: str, unread: int) -> tuple[float, float]:
        """Seconds of the first drafted token, and of each one after it."""
        first, later = self._expected(drafter, unread)
        ratio = self._ratio(drafter).median(1.0 if drafter in self.costs.draft else 0.0)
        return first * ratio, later * ratio

    def seconds(self, drafter: str | None, drafted: int, unread: int) -> float:
        """Of a round."""
        of_rows = table(self.rows(), 1 + drafted)
        if drafter is None or drafted == 0:
            return of_rows
        first, later = self.drafting(drafter, unread)
        return of_rows + first + (drafted - 1) * later

    def learn(self, drafter: str | None, drafted: int, unread: int, times: Times) -> None:
        """What a round took."""
        if self.costs.fixed:
            return
        self._round += 1
        rows = 1 + drafted
        if rows not in self._widths:
            self._widths[rows] = _Last(FEW)
        self._widths[rows].add(times.target / table(self.costs.target, rows), self._round)
        self._widths = {n: w for n, w in self._widths.items() if w.when > self._round - FORGET}
        self._verify.add(times.verify / rows, self._round)
        if drafter is not None and drafted and unread <= WIDEST:
            first, later = self._expected(drafter, unread)
            took = times.draft / (first + (drafted - 1) * later)
            self._ratio(drafter).add(took, self._round)
        self._rows = None

    def _ratio(self, drafter: str) -> _Last:
        if drafter not in self._ratios:
            self._ratios[drafter] = _Last(MANY)
        return self._ratios[drafter]

    def _expected(self, drafter: str, unread: int) -> tuple[float, float]:
        """Of a draft model, seconds: a pass over what it has not read, then one a token. Reading a
        long text, a prompt as a rule, is spread over the rounds to come. Of a lookup, tokens."""
        costs = self.costs.draft.get(drafter)
        if not costs:
            return 1.0, 1.0
        if unread > WIDEST:
            return costs[0] + (table(costs, unread) - costs[0]) / FORGET, costs[0]
        return table(costs, max(unread, 1)), costs[0]

    def _by_width(self) -> list[float]:
        """Observed ÷ expected for each width, interpolated between those that were seen."""
        seen = sorted((n, width.median(1.0)) for n, width in self._widths.items())
        if not seen:
            return [1.0] * len(self.costs.target)
        ratios = []
        (low, below), above = seen[0], iter(seen)
        high, ratio = next(above)
        for n in range(1, len(self.costs.target) + 1):
            while n > high:
                low, below = high, ratio
                high, ratio = next(above, (len(self.costs.target) + 1, ratio))
            slope = (ratio - below) / (high - low) if high > low else 0.0
            ratios.append(below + slope * (n - low) if n > low else below)
        return ratios


class _Last:
    """The last few values and their median."""

    def __init__(self, most: int) -> None:
        self._values: deque[float] = deque(maxlen=most)
        self._median: float | None = None
        self.when = 0  # the round of the last

    def add(self, value: float, when: int) -> None:
        self._values.append(value)
        self.when = when
        ordered = sorted(self._values)
        middle = len(ordered) // 2
        even = len(ordered) % 2 == 0
        self._median = (ordered[middle - 1] + ordered[middle]) / 2 if even else ordered[middle]

    def median(self, default: float) -> float:
        return default if self._median is None else self._median


def table(seconds: Sequence[float], rows: int) -> float:
    """Of a pass over `rows`; beyond the table by its last step."""
    if rows <= len(seconds):
        return seconds[rows - 1]
    step = seconds[-1] - seconds[-2] if len(seconds) > 1 else 0.0
    return seconds[-1] + step * (rows - len(seconds))
