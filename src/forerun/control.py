"""How many tokens to draft, and by whom: what promises most tokens per second.

    rate(γ) = (1 + Σ_{i≤γ} s_i) / seconds(γ)                                 γ = 0, 1, …, 15

s_i = Pr(at least i are accepted) is estimated from this request's own rounds (`Acceptance`), the
seconds from measured costs (`pace.py`). γ = 0 is plain decoding, and speculation that does not pay
ends there. Then a drafter is tried again when it has waited long enough: after each try that does
not make it pay twice as long, LONGEST rounds at most.

What this may cost is bounded, whatever the drafts are worth. An account is kept in passes of plain
decoding: a token earns 1 + MARGIN, a round takes its cost, and a draft must be affordable should
nothing of it be accepted. The account begins with one pass and never falls below 0, so that

    cost of n tokens ≤ (1 + MARGIN)·n + 1      in passes of plain decoding

which is 0.97 of plain decoding's speed, or better, from 100 tokens on. (In costs as estimated; a
draft model's reading of the prompt is left aside, as the target's is.)

All decisions depend on the past alone, and on what a drafter says of the prefix (`Outlook`); never
on the drafted tokens that are decided about. What this module does not know: tokens, laws, and that
requests of a batch share their passes: each counts the cost of its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from forerun.drafters.base import Drafter, Outlook, outlook, parts
from forerun.pace import Costs, Pace
from forerun.trace import Expected, Times

MARGIN = 0.02  # of plain decoding's time
SAVED = 8.0  # passes: most the account can hold
LONGEST = 64  # rounds


UNKNOWN = Outlook(most=0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One round's: who drafts how many tokens, and what control expects of it."""

    drafter: str | None = None
    num_draft: int = 0
    outlook: Outlook = UNKNOWN
    expected: Expected | None = None
    tried: bool = False  # against expectation, to see whether it pays by now


PLAIN = Plan()


class Control(Protocol):
    """Decides for one request."""

    def plan(self, drafter: Drafter, slot: int, length: int, room: int) -> Plan:
        """For a text of `length` tokens that has `room` for so many drafted ones."""
        ...

    def learn(self, plan: Plan, rows: int, drafted: int, accepted: int, times: Times) -> None:
        """What came of it: `rows` in the target's pass, and of `drafted` tokens so many kept."""
        ...


class FixedControl:
    """The same γ in every round; of several drafters the first that has something."""

    def __init__(self, num_draft: int) -> None:
        self.num_draft = num_draft

    def plan(self, drafter: Drafter, slot: int, length: int, room: int) -> Plan:
        most = min(self.num_draft, room)
        if most < 1:
            return PLAIN
        several = parts(drafter, slot)
        for name, part in several.items():
            if len(several) == 1 or outlook(part, slot, length, most).most > 0:
                return Plan(drafter=name, num_draft=most)
        return PLAIN

    def learn(self, plan: Plan, rows: int, drafted: int, accepted: int, times: Times) -> None:
        """It never changes."""


class AdaptiveControl:
    """`num_draft="auto"`. See the module's docstring."""

    def __init__(self, costs: Costs) -> None:
        self._pace = Pace(costs)
        self._accepts: dict[str, Acceptance] = {}
        self._account = 1.0
        self._waited: dict[str, int] = {}  # rounds since the drafter was asked
        self._patience: dict[str, int] = {}  # rounds to wait for a try

    def plan(self, drafter: Drafter, slot: int, length: int, room: int) -> Plan:
        pace, most = self._pace, min(room, self._pace.costs.widest - 1)
        seconds = pace.rows()[0]
        best, tried = Plan(expected=Expected(tokens=1.0, seconds=seconds)), None
        highest = 1 / seconds
        if most < 1 or pace.unsure(length):
            return best
        for name, part in parts(drafter, slot).items():
            found = self._best(name, outlook(part, slot, length, most), most)
            if found is None or found.expected is None:
                continue
            rate = found.expected.tokens / found.expected.seconds
            if rate > highest:
                highest, best = rate, found
            elif tried is None and self._waited.get(name, 0) >= self._patience.get(name, 0):
                tried = found
        if tried is not None and best.drafter is None:
            return replace(tried, tried=True)
        return best

    def _best(self, name: str, found: Outlook, most: int) -> Plan | None:
        """Of this drafter's drafts that the account can bear, the one with the highest rate."""
        if found.most < 1:
            return None
        rows, (draft, later) = self._pace.rows(), self._pace.drafting(name, found.unread)
        limit = (self._account + 1 + MARGIN) * rows[0]
        tokens, highest, best = 1.0, 0.0, None
        survival = self._accepts.setdefault(name, Acceptance()).survival(found, most)
        for n, s in enumerate(survival, start=1):
            tokens += s
            seconds = rows[n] + draft
            draft += later
            if seconds > limit:
                break
            if tokens > highest * seconds:
                highest, best = tokens / seconds, (n, tokens, seconds)
        if best is None:
            return None
        n, tokens, seconds = best
        expected = Expected(tokens=tokens, seconds=seconds)
        return Plan(drafter=name, num_draft=n, outlook=found, expected=expected)

    def learn(self, plan: Plan, rows: int, drafted: int, accepted: int, times: Times) -> None:
        pace, unread = self._pace, plan.outlook.unread
        pace.learn(plan.drafter, rows - 1, unread, times)
        cost = pace.seconds(plan.drafter, rows - 1, unread) / pace.rows()[0]
        self._account = min(self._account + (1 + MARGIN) * (1 + accepted) - cost, SAVED)
        for name in self._waited:
            self._waited[name] += 1
        if plan.drafter is None:
            return
        acceptance = self._accepts[plan.drafter]
        if plan.tried and accepted == drafted:  # it may be good now: what is long ago counts little
            acceptance.forget(self._waited.get(plan.drafter, 0))
        acceptance.learn(plan.outlook, drafted, accepted)
        patience = self._patience.get(plan.drafter, 1)
        self._patience[plan.drafter] = min(2 * patience, LONGEST) if plan.tried else 1
        self._waited[plan.drafter] = 0


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
