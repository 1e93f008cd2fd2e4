"""One request's part in deciding how far to draft: what it promises, what it may spend.

The γ of all requests of a round are decided together, in `company.py`, as

    rate = Σ_r (1 + Σ_{i≤γ_r} s_i) / seconds(rows of all)

is highest: most tokens per second for the batch. A request says what it could draft (`offers`: by
each of its drafters, with the s_i its own past lets expect), and learns what came of it. Trees are
offered once for each depth, as far as their passes cost: of all shapes so deep the one whose nodes
are likeliest, γ being their number. A drafter that has several ways, of different costs, offers
each, and each is learnt about by itself, as if it were a drafter. γ = 0 is plain decoding, and
speculation that does not pay ends there. But a few rejections may be bad luck: in each round that a
drafter is not asked, what was seen of it counts less, until what other requests saw is believed
again. And it is tried, against what is expected, when it has waited long enough: after each try
twice as long, LONGEST rounds at most. The first wait is WAIT rounds where other requests have shown
what its drafts are worth, else none.

What this may cost is bounded, whatever the drafts are worth. `company.py` says what a round costs
beyond that of a company that drafts nothing, and what a token of it is worth: the company's plain
pass, divided by its rows. Each request has an account, in seconds. It begins with one token's
worth; an accepted token pays in its worth, every token MARGIN of it; what drafting costs beyond the
plain pass is paid out of it, and a draft must be affordable should nothing of it be accepted. To
look for drafts takes time, too, and is paid likewise: a request that cannot pay it rests, which is
plain decoding without a look, until it has saved REST of a token's worth; and where it found a
draft beyond its means that would pay, or is to be tried, until it has saved for that, if it ever
can. So the account never falls below 0, which for a request alone is

    cost of n tokens ≤ (1 + MARGIN)·n + 1      in passes of plain decoding

or 0.97 of plain decoding's speed, or better, from 100 tokens on. (In costs as estimated; a draft
model's reading of the prompt is left aside, as the target's is.)

What this module does not know: tokens, laws, the other requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from forerun.drafters.base import Drafter, Outlook, outlook, ways
from forerun.numerics.token_tree import TokenTree
from forerun.numerics.tree_shape import USUAL, Shape, best, depths_of
from forerun.pace import Pace, Reads, Situation, reads
from forerun.survival import Acceptance, likely
from forerun.trace import Expected

MARGIN = 0.02  # of plain decoding's time
SAVED = 8.0  # tokens' worth: most the account can hold
REST = 0.25  # of a token's worth: saved before a request looks for drafts again
WAIT, LONGEST = 16, 64  # rounds
HALF = 0.5  # of what a drafter that says no chances, and was not seen yet, is believed to guess
DEPTHS = (1, 2, 3, 4, 6, 8, 11, 15)  # of trees that are offered

UNKNOWN = Outlook(most=0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One request's part of a round: who drafts how many tokens, and what control expects of it."""

    drafter: str | None = None
    num_draft: int = 0
    shape: Shape | None = None  # of a tree, if it was chosen
    outlook: Outlook = UNKNOWN
    expected: Expected | None = None
    tried: bool = False  # against expectation, to see whether it pays by now
    price: float = 0.0  # seconds that it pays for its draft, and for looking
    looked: bool = False  # for drafts, which takes time whatever comes of it
    worth: float = 0.0  # seconds that a token was worth
    at: Situation | None = None  # in which it was made; None where all γ are fixed

    @property
    def passes(self) -> str:
        """What its drafting costs go by."""
        return self.outlook.passes or self.drafter or ""

    @property
    def reads(self) -> Sequence[Reads]:
        """What a draft model is expected to read for it, token by token."""
        shape = self.shape
        if shape is None and self.outlook.trees is not None:
            shape = self.outlook.trees.shape or best(USUAL, self.num_draft)
        return reads(shape, self.num_draft)


PLAIN = Plan()


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One request of a round that is to be planned."""

    control: Control
    drafters: Mapping[str, Drafter]  # those it has, by name
    slot: int
    length: int  # tokens of its text
    room: int  # for so many drafted ones


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What one of a request's drafters could draft for it in this round: the first so many tokens
    of a chain, or nodes of a tree."""

    request: int  # index in the round
    drafter: str
    outlook: Outlook
    survival: tuple[float, ...]  # s_1, s_2, …; they do not rise
    parents: Shape | None = None  # of a tree's nodes, in that order
    funds: float  # seconds that the request may spend
    waited: int | None  # rounds since it was asked, where it may be tried; else None

    @property
    def passes(self) -> str:
        """What its drafting costs go by."""
        return self.outlook.passes or self.drafter

    @cached_property
    def reads(self) -> Sequence[Reads]:
        """What a draft model reads for each."""
        return reads(self.parents, len(self.survival))


class FixedControl:
    """The same γ in every round; of several drafters the one of which most tokens should be
    accepted, by the request's own past, and on a tie the first. What is known of one that was
    passed over counts less each time, so that it is tried again."""

    def __init__(self, num_draft: int) -> None:
        self.num_draft = num_draft
        self._accepts: dict[str, Acceptance] = {}
        self._passed_over: list[str] = []

    def plan(self, seat: Seat) -> Plan:
        most = min(self.num_draft, seat.room)
        if most < 1:
            return PLAIN
        found = {
            name: outlook(part, seat.slot, seat.length, most)
            for name, part in seat.drafters.items()
        }
        if len(found) > 1:
            found = {name: said for name, said in found.items() if said.most > 0}
        if not found:
            return PLAIN
        chosen = next(iter(found))
        if len(found) > 1:
            chosen = max(found, key=lambda name: self._expected(name, found[name], most))
        self._passed_over = [name for name in found if name != chosen]
        return Plan(drafter=chosen, num_draft=most, outlook=found[chosen])

    def _expected(self, name: str, said: Outlook, most: int) -> float:
        """Accepted tokens."""
        accepts = self._acceptance(name)
        if said.trees is None:
            return sum(accepts.survival(said, most))
        return sum(likely(accepts.ranks(), said.trees, min(most, said.most), said.trees.depth)[1])

    def learn(self, plan: Plan, tree: TokenTree, path: Sequence[int]) -> None:
        """What came of a plan: of `tree`, which was drafted, `path` was accepted."""
        if plan.drafter is not None:
            self._acceptance(plan.drafter).learn(plan.outlook, tree, path)
            for name in self._passed_over:
                self._acceptance(name).forget(1)

    def _acceptance(self, name: str) -> Acceptance:
        return self._accepts.setdefault(name, Acceptance(first=HALF))


class AdaptiveControl:
    """`num_draft="auto"`. See the module's docstring. All of an engine share its `pace`."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._accepts: dict[str, Acceptance] = {}
        self._account: float | None = None  # seconds; None: a token's worth
        self._rounds = 0
        self._tried: dict[str, int] = {}  # round of the drafter's last try
        self._patience: dict[str, int] = {}  # rounds to wait for the next
        self._rests = False  # since its means were spent
        self.looks = True  # in this round
        self.goal = 0.0  # seconds that it saves for

    def offers(self, request: int, seat: Seat, worth: float) -> list[Offer]:
        """What its drafters could draft, in order."""
        most = min(seat.room, self.pace.costs.widest - 1)
        account = worth if self._account is None else self._account
        funds = account + MARGIN * worth - self.pace.look
        self._rests = funds <= 0 or (self._rests and account < REST * worth)
        self.looks = not self._rests and funds >= self.goal
        found: list[Offer] = []
        if not self.looks:
            return found
        self.goal = 0.0
        for name, part in seat.drafters.items() if most > 0 else ():
            for said in ways(part, seat.slot, seat.length, most):
                if said.most > 0:
                    found += self._offered(request, name, said, most, funds)
        return found

    def _offered(
        self, request: int, drafter: str, said: Outlook, most: int, funds: float
    ) -> Iterator[Offer]:
        """One of a drafter's ways."""
        name = said.passes or drafter
        accepts = self._accepts.setdefault(name, Acceptance(self.pace.usual(name)))
        waited = self._rounds - self._tried.get(name, 0)
        patience = self._patience.setdefault(name, WAIT if accepts.known else 0)
        for parents, survival in self._shapes(name, accepts, said, most):
            yield Offer(
                request=request,
                drafter=drafter,
                outlook=said,
                survival=tuple(survival),
                parents=parents,
                funds=funds,
                waited=waited if waited >= patience else None,
            )

    def _shapes(
        self, name: str, accepts: Acceptance, said: Outlook, most: int
    ) -> Iterator[tuple[Shape | None, Sequence[float]]]:
        """A chain; or trees, each deeper than the one before it where depth costs passes."""
        if said.trees is None:
            yield None, accepts.survival(said, most)
            return
        most, deepest, ranks = min(most, said.most), said.trees.depth, accepts.ranks()
        for depth in DEPTHS if name in self.pace.costs.draft else (deepest,):
            parents, survival = likely(ranks, said.trees, most, min(depth, deepest))
            yield parents, survival
            if max(depths_of(parents)) < depth:
                return

    def learn(self, plan: Plan, tree: TokenTree, path: Sequence[int]) -> None:
        """What came of a plan: of `tree`, which was drafted, `path` was accepted."""
        accepted = len(path)
        account = plan.worth if self._account is None else self._account
        income = plan.worth * (accepted + MARGIN * (1 + accepted))
        self._account = min(account + income - plan.price, SAVED * plan.worth)
        self._rounds += 1
        for name, acceptance in self._accepts.items():
            if plan.drafter is None or name != plan.passes:
                acceptance.forget(1)
        if plan.drafter is None:
            return
        name, acceptance = plan.passes, self._accepts[plan.passes]
        if plan.tried:
            self._patience[name] = min(2 * max(self._patience[name], 1), LONGEST)
            self._tried[name] = self._rounds
        acceptance.learn(plan.outlook, tree, path)


Control = FixedControl | AdaptiveControl
