"""Rounds played through: how many it takes to write the texts, and the seconds they come to.

    text      a  b  c  d  e  f  g         the moment's draft, as far as control would go
    round 1   b  c ✗             ┐        1 accepted + 1 = 2 tokens on
    round 2         e  f  g ✓    ┘        …

The control is the engine's own: a fixed γ, or `auto`, which decides each round by what its rounds
have shown. Several requests go side by side, each through all the texts, another one first, until
one of them has written them all; so all the time there are that many.

Of a request alone each text's first round is left out, as `forerun bench` does.

    seconds of a round = pass, laws, verifying (rounds.py) + drafting (replay.py) + planning (here;
                         saying what could be drafted, where control asks, by replay.py)
                         + what an engine adds to each request's

What this module does not know: models, tokens' meaning.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import cast

from forerun.company import learn_batch, plan_batch
from forerun.control import Control, FixedControl, Plan, Seat
from forerun.drafters.base import Drafter, DrafterTraits, Outlook
from forerun.numerics.token_tree import TokenTree
from forerun.pace import table
from forerun.plan.replay import Moment, Replay
from forerun.plan.rounds import RoundCosts
from forerun.plan.texts import Clock
from forerun.trace import Times

Outcome = tuple[TokenTree, tuple[int, ...]]
"""What was drafted, and the accepted nodes of it."""


@dataclass(frozen=True, kw_only=True)
class Walked:
    """What rounds came to."""

    rounds: int  # of each request
    tokens: int
    drafted: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second, of all requests together."""
        return self.tokens / self.seconds

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.rounds


@dataclass(kw_only=True)
class Recorded:
    """A drafter that says and drafts what it did when its replays were made."""

    name: str
    traits: DrafterTraits
    replays: Sequence[Replay]  # by text
    seconds: Sequence[float]  # of a draft of 1, 2, … tokens
    pass_seconds: tuple[float, ...] = ()  # of its model, by rows; (): it looks things up
    first: float = 0.0  # seconds that its model's first pass in a round takes longer
    reads: bool = True  # its model reads the text, too; not the target without some of its layers
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # slot -> text, tokens of it
    behind: dict[int, int] = field(default_factory=dict)  # slot -> tokens its model has not read
    moments: dict[int, Moment] = field(default_factory=dict)  # slot -> that of this round

    @classmethod
    def of(
        cls,
        drafter: Drafter,
        replays: Sequence[Replay],
        pass_seconds: tuple[float, ...] = (),
        first: float = 0.0,
        reads: bool = True,
    ) -> Recorded:
        return cls(
            name=drafter.name,
            traits=drafter.traits,
            replays=replays,
            seconds=_typical([m for one in replays for m in one.moments.values()]),
            pass_seconds=pass_seconds,
            first=first,
            reads=reads,
        )

    @property
    def following(self) -> float:
        """Seconds a round, whoever drafts."""
        return statistics.fmean(one.following for one in self.replays)

    @property
    def looking(self) -> float:
        """Seconds of a look for drafts, whoever drafts then."""
        return statistics.fmean(one.looking for one in self.replays)

    @property
    def everywhere(self) -> bool:
        """Whether every place of the texts was looked at."""
        return all(one.stride == 1 for one in self.replays)

    def stand(self, slot: int, text: int, at: int, dice: random.Random) -> None:
        """This round's place."""
        self.places[slot] = (text, at)
        self.moments[slot] = self.replays[text].near(at, dice)

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        said = self.moments[slot].outlook
        chances = None if said.chances is None else said.chances[:most]
        unread = self.behind[slot] if self.pass_seconds else 0
        return replace(said, most=min(said.most, most), chances=chances, unread=unread)

    def begin(self, slot: int, prompt: int) -> None:
        """Another text: its model has read nothing of the prompt, if it has a cache of its own."""
        self.behind[slot] = prompt if self.reads else 1

    def went(self, slot: int, tokens: int, drafted: int) -> None:
        """The text grew; of its own draft, if there was one, its model knows what was accepted, but
        for the last token, and for trees, of which nothing is kept."""
        if not self.reads:
            return
        known = min(tokens - 1, drafted - 1) if drafted and self.traits.chain else 0
        self.behind[slot] = tokens - known if drafted else self.behind[slot] + tokens

    def takes(self, asked: Mapping[int, int]) -> float:
        """Seconds of drafts of so many tokens, by slot, for requests that share its passes."""
        if not self.pass_seconds:
            return sum(table(self.seconds, n) for n in asked.values() if n)
        whole, before = 0.0, 0.0
        for depth in range(max(asked.values(), default=0)):
            until = table(self.seconds, depth + 1)
            share = sum(n > depth for n in asked.values())
            whole += (until - before) * table(self.pass_seconds, share) / self.pass_seconds[0]
            before = until
        # one token each is read in what was measured; at a text's beginning all reading is its own
        unread = sum(self.behind[slot] if self.places[slot][1] else 1 for slot in asked)
        more = table(self.pass_seconds, unread) - table(self.pass_seconds, len(asked))
        return whole + max(more, 0.0)


def _typical(moments: Sequence[Moment]) -> tuple[float, ...]:
    """Seconds of a draft of 1, 2, … tokens: medians over the moments that had so many."""
    found: list[float] = []
    for i in range(max((len(m.seconds) for m in moments), default=0)):
        here = statistics.median(m.seconds[i] for m in moments if len(m.seconds) > i)
        found.append(max(here, found[-1] if found else 0.0))
    return tuple(found) or (0.0,)


@dataclass(kw_only=True)
class Walker:
    """One request on its way through the texts."""

    slot: int
    order: Sequence[int]  # of texts
    control: Control
    number: int = 0
    at: int = 0

    @property
    def over(self) -> bool:
        return self.number == len(self.order)


def walk(
    lengths: Sequence[tuple[int, int]],
    drafters: Sequence[Recorded],
    control: Callable[[], Control],
    costs: RoundCosts,
    *,
    added: float = 0.0,
    seed: int = 0,
    clock: Clock = perf_counter,
) -> Walked:
    """Rounds of `costs.slots` requests through texts of so many tokens (prompt, output).

    `control` makes a request's; `added` are seconds of the engine's, for each request and round.
    """
    coins, count = random.Random(seed), len(lengths)
    walkers = [
        Walker(slot=i, order=[(i + n) % count for n in range(count)], control=control())
        for i in range(costs.slots)
    ]
    company = Company(walkers, drafters, lengths, control)
    beside = added + sum(one.following for one in drafters)
    looking = sum(one.looking for one in drafters)
    total, rounds, planning = Counts(), 0, list[float]()
    while not any(one.over for one in walkers):
        first = len(walkers) == 1 and walkers[0].at == 0
        start = clock()
        plans = company.plans(coins)
        took = clock() - start
        found = company.drafted(plans, coins)
        counts, pairs = company.counts(plans, found), list(zip(plans, walkers))
        passing = costs.of(len(walkers) + counts.drafted)
        start = clock()
        company.learn(plans, found, counts.seconds, passing, took / len(walkers) + looking)
        took += clock() - start
        counts.tokens = company.go_on(plans, found)
        looks = sum(plan.looked or isinstance(one.control, FixedControl) for plan, one in pairs)
        counts.seconds += passing + len(walkers) * beside + looks * looking
        if not first:  # its time is the prompt's, too: `bench` leaves it out
            total.add(counts)
            planning.append(took)
            rounds += 1
    return Walked(
        rounds=rounds * len(walkers),
        tokens=total.tokens,
        drafted=total.drafted,
        seconds=total.seconds + rounds * statistics.median(planning or [0.0]),
    )


@dataclass(kw_only=True)
class Counts:
    """Of a round, or several; seconds are of drafting, at first."""

    tokens: int = 0
    drafted: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        self.tokens += other.tokens
        self.drafted += other.drafted
        self.seconds += other.seconds


class Company:
    """The requests of a walk, and who drafts for them."""

    def __init__(
        self,
        walkers: Sequence[Walker],
        drafters: Sequence[Recorded],
        lengths: Sequence[tuple[int, int]],
        control: Callable[[], Control],
    ) -> None:
        self._walkers, self._drafters, self._lengths = walkers, drafters, lengths
        self._by_name = {one.name: one for one in drafters}
        self._control = control
        for one in walkers:
            self._begin(one)

    def plans(self, dice: random.Random) -> list[Plan]:
        parts = cast(Mapping[str, Drafter], self._by_name)  # for what is asked of them here
        seats = []
        for one in self._walkers:
            prompt, output = self._of(one)
            for drafter in self._drafters:
                drafter.stand(one.slot, one.order[one.number], one.at, dice)
            seats.append(
                Seat(
                    control=one.control,
                    drafters=parts,
                    slot=one.slot,
                    length=prompt + one.at,
                    room=output - one.at - 1,
                )
            )
        return plan_batch(seats)

    def drafted(self, plans: Sequence[Plan], coins: random.Random) -> list[Outcome]:
        """What the plans draft, and the accepted nodes of it."""
        return [self._drafted(plan, one, coins) for plan, one in zip(plans, self._walkers)]

    def counts(self, plans: Sequence[Plan], found: Sequence[Outcome]) -> Counts:
        counts = Counts(drafted=sum(len(tree) for tree, _ in found))
        for drafter in self._drafters:
            asked = {
                one.slot: len(tree)
                for one, plan, (tree, _) in zip(self._walkers, plans, found)
                if plan.drafter == drafter.name
            }
            counts.seconds += drafter.takes(asked) if asked else 0.0
        return counts

    def learn(
        self,
        plans: Sequence[Plan],
        found: Sequence[Outcome],
        drafting: float,
        passing: float,
        planned: float,
    ) -> None:
        """As after a round of an engine."""
        controls = [one.control for one in self._walkers]
        for control, plan, (tree, path) in zip(controls, plans, found):
            control.learn(plan, tree, path)
        asked = sum(plan.drafter is not None for plan in plans)
        shares = [drafting / asked if plan.drafter is not None else 0.0 for plan in plans]
        times = Times(draft=drafting, target=passing, verify=0.0)
        learn_batch(controls, plans, [tree for tree, _ in found], shares, times, planned)

    def go_on(self, plans: Sequence[Plan], found: Sequence[Outcome]) -> int:
        """The tokens that all texts grew by."""
        tokens = 0
        for one, plan, (tree, path) in zip(self._walkers, plans, found):
            for drafter in self._drafters:
                own = plan.drafter == drafter.name
                drafter.went(one.slot, 1 + len(path), len(tree) if own else 0)
            tokens += self._on(one, 1 + len(path))
        return tokens

    def _of(self, one: Walker) -> tuple[int, int]:
        return self._lengths[one.order[one.number]]

    def _begin(self, one: Walker) -> None:
        """A text, from its beginning."""
        one.control = self._control()
        for drafter in self._drafters:
            drafter.begin(one.slot, self._of(one)[0])

    def _drafted(self, plan: Plan, one: Walker, coins: random.Random) -> Outcome:
        if plan.drafter is None:
            return TokenTree(), ()
        moment = self._by_name[plan.drafter].moments[one.slot]
        count = min(plan.num_draft, len(moment.tree))
        tree = TokenTree(moment.tree.tokens[:count], moment.tree.parents[:count])
        return tree, moment.accepted(count, coins.random())

    def _on(self, one: Walker, count: int) -> int:
        """Go `count` tokens on, or to the end of the text, where the next begins; how many."""
        length = self._of(one)[1]
        count = min(count, length - one.at)
        one.at += count
        if one.at == length:
            one.number, one.at = one.number + 1, 0
            if not one.over:
                self._begin(one)
        return count
