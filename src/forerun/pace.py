"""What a round of a company takes: the measured costs, corrected by the times of its own rounds.

    seconds = τ_p(n) + Σ τ_q + n·τ_v          n rows of all requests

τ_p   the target's pass: the table of `models/cost.py`, times observed ÷ expected at that width
τ_q   drafting, by each drafter: passes of the draft model by its own table, one for each depth of
      a chain or a tree, the first of which finds its weights out of the caches, times one ratio; a
      lookup costs what it took per token
τ_v   judging a row: what it took

The table was measured behind a short text in one slot, on a machine with other load. So the last
times of each width are compared with it, in each situation by itself; between widths the ratio is
interpolated, and widths not seen for FORGET rounds are forgotten. Medians throughout: one slow pass
changes nothing.

What this module does not know: who drafts, and what drafts are worth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from pathlib import Path

from forerun.drafters.base import Drafter, models, parts
from forerun.drafters.lookup import number as as_number
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.cost import CACHED, WIDEST, awakening, stated, target_seconds
from forerun.numerics.tree_shape import Shape, depths_of
from forerun.survival import Acceptance
from forerun.trace import Times

FEW, MANY = 5, 15  # last times that are kept: of a width, of anything else
FORGET = 64  # rounds
USUAL_FADE = 0.995  # of what became of drafts in other requests, for each new one


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of passes over 1, 2, … rows: the target's, and those of drafters that run a model, by
    name (of a drafter that has several ways, by `Outlook.passes`). `first` is what the first pass
    that such a drafter makes in a round takes beyond its table.

    `fixed` costs are believed as they are, and drafting that `draft` does not name is free; others
    are corrected by the times of a request's rounds.
    """

    target: tuple[float, ...]
    draft: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    first: Mapping[str, float] = field(default_factory=dict)
    fixed: bool = False

    @classmethod
    def measured(cls, target: Model, drafter: Drafter | None, cache: Path | None = None) -> Costs:
        """Of these models, as far as they do not state their own. See `models/cost.py`."""
        drafts = {
            name: model for part in parts(drafter).values() for name, model in models(part).items()
        }
        return cls(
            target=target_seconds(target, cache=cache) or (1.0,),  # no room: nothing is drafted
            draft={name: target_seconds(model, cache=cache) for name, model in drafts.items()},
            first={name: awakening(model, target, cache=cache) for name, model in drafts.items()},
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
    for value in costs.first.values():
        if not 0 <= as_number(value) < 1e6:
            raise OptionError(f"costs of a first pass are seconds, not {value!r}")
    return costs


Situation = tuple[int, int]
"""What passes are compared in: the number of slots that share one, and the length of their texts
(its binary order, from 0 for what the costs were measured behind). Proportions differ with both:
the more is cached and the more slots, the more of a pass is attention."""


def situation(lengths: Sequence[int]) -> Situation:
    """Of a round for texts of so many tokens."""
    mean = sum(lengths) // len(lengths)
    return len(lengths), (max(mean - 1, 0) // (2 * CACHED)).bit_length()


class Pace:
    """Expected seconds, kept up to date by `learn`. One for an engine: passes are shared."""

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._round = 0
        self._widths: dict[tuple[Situation, int], _Last] = {}  # observed ÷ expected by rows
        self._ratios: dict[str, _Last] = {}  # observed ÷ expected by drafter
        self._verify = _Last(MANY)  # seconds a row
        self._look = _Last(MANY)  # seconds of planning for a request
        self._usual: dict[str, Acceptance] = {}  # by drafter

    def usual(self, drafter: str) -> Acceptance:
        """What became of this drafter's drafts in all requests."""
        return self._usual.setdefault(drafter, Acceptance(fade=USUAL_FADE))

    def unsure(self, at: Situation, rows: int) -> bool:
        """Whether a pass over so many rows, that of a company that drafts nothing, is due, to
        compare others with: long texts change the proportions, and so may what else the machine
        does."""
        if self.costs.fixed or (at, rows) in self._widths:
            return False
        return self._round >= FORGET or at[1] > 0

    def rows(self, at: Situation, most: int) -> Sequence[float]:
        """Seconds of passing and judging 1, 2, …, `most` rows."""
        known = self.costs.target[:most]
        expected = [*known, *(table(known, n) for n in range(len(known) + 1, most + 1))]
        if self.costs.fixed:
            return expected
        verify, ratios = self._verify.median(0.0), self._by_width(at, most)
        return [s * ratio + n * verify for n, (s, ratio) in enumerate(zip(expected, ratios), 1)]

    def ratio(self, drafter: str) -> float:
        """Observed ÷ expected, of what `Bill` expects of a drafter."""
        known = self._ratios.get(drafter)
        default = 1.0 if drafter in self.costs.draft else 0.0
        return default if known is None else known.median(default)

    def shared(
        self, drafter: str, reads: Sequence[Reads], unread: int, sharers: int
    ) -> Iterator[float]:
        """Seconds that each further token of a request's draft takes of its drafter, where so many
        alike share the passes."""
        costs, ratio = self.costs.draft.get(drafter), self.ratio(drafter)
        if not costs:
            yield from repeat(ratio, len(reads))
            return
        rows, reading = first_pass(costs, unread)
        reading += self.costs.first.get(drafter, 0.0) / sharers
        before = dict[int, int]()  # rows by pass
        for more in reads:
            seconds = 0.0
            for depth, count in more:
                old = before.get(depth, 0)
                if depth == 0:
                    count, seconds = rows, seconds + reading
                before[depth] = old + count
                seconds += table(costs, (old + count) * sharers) / sharers
                seconds -= table(costs, old * sharers) / sharers if old else 0.0
            yield ratio * seconds

    def learn(
        self, at: Situation, rows: int, times: Times, drafting: Bill, took: Mapping[str, float]
    ) -> None:
        """The `times` of a whole round, and what each drafter `took` where `drafting` expects."""
        if self.costs.fixed:
            return
        self._round += 1
        width = self._widths.setdefault((at, rows), _Last(FEW))
        width.add(times.target / table(self.costs.target, rows), self._round)
        self._widths = {k: w for k, w in self._widths.items() if w.when > self._round - FORGET}
        self._verify.add(times.verify / rows, self._round)
        for drafter, expected in drafting.expected.items():
            if drafter not in drafting.reading:
                ratio = self._ratios.setdefault(drafter, _Last(MANY))
                ratio.add(took[drafter] / expected, self._round)

    @property
    def look(self) -> float:
        """Seconds that it takes to plan for a request, whatever is planned."""
        return self._look.median(0.0)

    def learn_look(self, seconds: float) -> None:
        """What it took, in a round in which all were planned for."""
        self._look.add(seconds, self._round)

    def _by_width(self, at: Situation, most: int) -> list[float]:
        """Observed ÷ expected for each width, interpolated between those that were seen."""
        seen = sorted((n, w.median(1.0)) for (where, n), w in self._widths.items() if where == at)
        if not seen:
            return [1.0] * most
        ratios = []
        (low, below), above = seen[0], iter(seen)
        high, ratio = next(above)
        for n in range(1, most + 1):
            while n > high:
                low, below = high, ratio
                high, ratio = next(above, (most + 1, ratio))
            slope = (ratio - below) / (high - low) if high > low else 0.0
            ratios.append(below + slope * (n - low) if n > low else below)
        return ratios


def first_pass(costs: Sequence[float], unread: int) -> tuple[int, float]:
    """Rows of a draft model's first pass for a request, and seconds for what it reads besides: a
    long text, a prompt as a rule, is spread over the rounds to come."""
    if unread <= WIDEST:
        return max(unread, 1), 0.0
    return 1, (table(costs, unread) - costs[0]) / FORGET


Reads = tuple[tuple[int, int], ...]
"""(pass, rows): what a draft model reads more for one more token of a draft."""


def reads(shape: Shape | None, count: int) -> Sequence[Reads]:
    """For each of the first `count` tokens of a chain, or nodes of a tree, parents first.

    The first pass reads what of the text is new (counted as one row here), each later one the
    chain's last token, or all of the tree so far: it opens with the first token that its law is
    for, and a node adds a row to every pass below it that is open.

        chain             (0, 1)   (1, 1)          (2, 1)
        (−1, 0, −1, 1)    (0, 1)   (1, 1)   (1, 1)   (2, 3)
    """
    if shape is None:
        return _chain_reads(count)
    found: list[Reads] = []
    levels = [0]  # nodes by depth; the root's is not counted
    for depth in depths_of(shape[:count]):
        more = [(later, 1) for later in range(depth, len(levels) - 1)]
        if depth == len(levels):
            more.append((depth - 1, sum(levels) or 1))
            levels.append(0)
        levels[depth] += 1
        found.append(tuple(more))
    return found


@cache
def _chain_reads(count: int) -> Sequence[Reads]:
    return tuple(((depth, 1),) for depth in range(count))


class Bill:
    """What drafting for a company costs, token by token.

    Requests that a draft model drafts for share its passes: one for each depth, the first over what
    they have not read. A lookup costs what it took per token. Reading long texts teaches nothing.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.seconds = 0.0
        self.expected: dict[str, float] = {}  # by drafter: seconds by its table, or tokens
        self.reading: set[str] = set()  # drafters that read a long text
        self._passes: dict[str, list[int]] = {}  # rows by depth

    def add(self, drafter: str, more: Reads, unread: int) -> None:
        """One more token for a request, which reads `more`; `unread` tokens were to be read."""
        cost, costs = 1.0, self._pace.costs.draft.get(drafter)
        if costs:
            cost, passes = 0.0, self._passes.setdefault(drafter, [])
            for at, rows in more:
                if at == len(passes):
                    passes.append(0)
                    cost += self._pace.costs.first.get(drafter, 0.0) if at == 0 else 0.0
                if at == 0:
                    rows, reading = first_pass(costs, unread)
                    cost += reading
                    if reading:
                        self.reading.add(drafter)
                before = passes[at]
                passes[at] += rows
                cost += table(costs, before + rows) - (table(costs, before) if before else 0.0)
        self.expected[drafter] = self.expected.get(drafter, 0.0) + cost
        self.seconds += cost * self._pace.ratio(drafter)

    def add_all(self, drafter: str, reads: Iterable[Reads], unread: int) -> None:
        """Tokens for a request that has none yet."""
        for more in reads:
            self.add(drafter, more, unread)

    def of(self, drafter: str) -> float:
        """Seconds of this drafter."""
        return self.expected.get(drafter, 0.0) * self._pace.ratio(drafter)

    def copy(self) -> Bill:
        other = Bill(self._pace)
        other.seconds, other.expected = self.seconds, dict(self.expected)
        other.reading = set(self.reading)
        other._passes = {drafter: list(passes) for drafter, passes in self._passes.items()}
        return other


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
