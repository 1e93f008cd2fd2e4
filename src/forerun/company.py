"""The γ of all requests that share a round, decided together.

    rate(γ_1, γ_2, …) = Σ_r (1 + Σ_{i≤γ_r} s_i) / seconds(Σ_r (1 + γ_r))          tokens a second

Rows are bought one after another, always that of the request whose next drafted token is likeliest
to survive (by s_i per second of its own: a row, and its drafting); of all the drafts passed on the
way the one with the highest rate is made, or none. So a step in the costs is crossed where what
lies behind it pays. A draft model drafts for several in one pass for each depth, and its passes
are counted once. One drafter that does not pay is tried in a round, that of the request that has
waited longest. Requests whose γ is fixed are rows that are there anyway.

**What a request's cost is.** Compared is the round of the same company in which those that decide
draft nothing: n rows, P seconds. A token is worth P / n. All that the round costs beyond P is paid
by those that draft, each for its own rows (an equal share of what the pass takes longer, and of its
drafter's time), but nobody more than its account holds; what is missing then, others that draft
add, in the same proportions. A draft is made only where the accounts together hold what it costs.
Summed over all rounds k and requests r, for what was written and what it took, accounts that never
fall below 0 say that

    Σ_k seconds_k ≤ Σ_k P_k + Σ_k P_k/n_k Σ_r (accepted + MARGIN · tokens) + Σ_r one token's worth

and where all decide for themselves, n_k tokens being those of a plain round,

    Σ_k seconds_k ≤ (1 + MARGIN) · Σ_k P_k/n_k · tokens_k + Σ_r one token's worth

(in costs as estimated): the batch's tokens take no longer, to MARGIN, than they would have taken
the same company without drafts. That is a bound on throughput: a request whose drafts fail waits
for the rows of others, and may itself be slower than in a plain batch. Tokens that a fixed γ brings
are counted as if all of them were accepted, so that nothing is gained at their cost.

A tree's nodes are bought as a chain's tokens are, each with its own chance to be accepted; its
drafting costs a pass for each depth, so that how deep it may be is chosen first, by the rate.

**Why the law of every request stays exact.** A plan is a function of what was there before the
round: each request's text, what was accepted in its earlier rounds (of trees: which child of each
accepted node), times, and what drafters say of the prefix (`Outlook`). None of it depends on the
tokens drafted, or the coins tossed, in this round, of this request or another. So given all that is
past, of the whole company, γ_r and the shape of a tree are constants: a node has its place before
its token is drawn, and is drafted whatever that token or another is. Each verifier's proof holds
for any such shape: the round's tokens have the law p given the
request's own text, whatever the others' pasts made γ_r. As the randomness of requests is
independent, and that of each round fresh, p given its own text is p given everything; summed over
the pasts it is the law of the request alone. (Under `coupled` γ does not matter at all. With a seed
under other verifiers a text depends on γ, so γ is fixed there.)

What this module does not know: tokens, laws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from forerun.control import (
    PLAIN,
    SAVED,
    UNKNOWN,
    AdaptiveControl,
    Control,
    FixedControl,
    Offer,
    Plan,
    Seat,
)
from forerun.numerics.token_tree import TokenTree
from forerun.numerics.tree_shape import breadth_first
from forerun.pace import Bill, Pace, reads, situation
from forerun.trace import Expected, Times

MOST_ROWS = 128  # of a pass with drafts


def plan_batch(seats: Sequence[Seat]) -> list[Plan]:
    """A plan for each request of a round. See the module's docstring."""
    plans = [s.control.plan(s) if isinstance(s.control, FixedControl) else PLAIN for s in seats]
    pace = _pace([seat.control for seat in seats])
    return plans if pace is None else Company(seats, plans, pace).plans()


def learn_batch(
    controls: Sequence[Control],
    plans: Sequence[Plan],
    drafted: Sequence[TokenTree],
    took: Sequence[float],
    times: Times,
    planned: float = 0.0,
) -> None:
    """What the plans' round took as a whole, each one's share of its drafter's time, and what it
    took to plan for one."""
    pace, at = _pace(controls), next((plan.at for plan in plans if plan.at is not None), None)
    if pace is None or at is None or pace.costs.fixed:
        return
    drafting, drafters = Bill(pace), dict[str, float]()
    for plan, tree, seconds in zip(plans, drafted, took):
        if plan.drafter is not None and len(tree):
            shape = None if plan.outlook.trees is None else tree.parents
            drafting.add_all(plan.passes, reads(shape, len(tree)), plan.outlook.unread)
            drafters[plan.passes] = drafters.get(plan.passes, 0.0) + seconds
    pace.learn(at, len(plans) + sum(map(len, drafted)), times, drafting, drafters)
    if all(plan.looked for plan in plans):
        pace.learn_look(planned)


def _pace(controls: Sequence[Control]) -> Pace | None:
    return next((one.pace for one in controls if isinstance(one, AdaptiveControl)), None)


@dataclass(kw_only=True)
class Drafts:
    """What might be drafted in a round."""

    made: dict[int, tuple[Offer, int]] = field(default_factory=dict)  # by request: so many tokens
    rows: int
    tokens: float  # that the round is expected to bring
    seconds: float
    drafting: Bill

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class Company:
    """The requests of a round. `fixed` has the plans of those whose γ is."""

    def __init__(self, seats: Sequence[Seat], fixed: Sequence[Plan], pace: Pace) -> None:
        self._seats, self._fixed, self._pace = seats, fixed, pace
        self._at = situation([seat.length for seat in seats])
        drafting, rows = Bill(pace), len(seats)
        for plan in fixed:
            rows += plan.num_draft
            if plan.drafter is not None:
                drafting.add_all(plan.passes, plan.reads, plan.outlook.unread)
        room = sum(min(s.room, pace.costs.widest - 1) for s in seats)
        self._most = max(rows, min(rows + room, MOST_ROWS))
        self._seconds = pace.rows(self._at, rows)  # up to `_most`, where somebody could draft
        seconds = self._seconds[rows - 1] + drafting.seconds
        self._plain = Drafts(rows=rows, tokens=float(rows), seconds=seconds, drafting=drafting)
        self._worth = seconds / rows
        self._looked: list[int] = []  # those that looked for drafts

    def plans(self) -> list[Plan]:
        offers: list[Offer] = []
        if not self._pace.unsure(self._at, self._plain.rows):
            for i, seat in enumerate(self._seats):
                if isinstance(seat.control, AdaptiveControl):
                    offers += seat.control.offers(i, seat, self._worth)
                    self._looked += [i] * seat.control.looks
        if not offers:
            return self._made(self._plain, self._plain)
        self._seconds = self._pace.rows(self._at, self._widest(offers))
        offers = self._preferred(offers, by=lambda offer: (offer.request, offer.passes))
        best = self._best(self._preferred(offers), self._plain.rate) or self._plain
        lookups = [offer for offer in offers if offer.passes not in self._pace.costs.draft]
        shared = len(self._seats) > 1  # then too few may be left that share a model's passes
        if shared and 0 < len(lookups) < len(offers):
            best = self._best(self._preferred(lookups), best.rate) or best
        found = self._tried(offers, best) or best
        self._save([offer for offer in offers if offer.request not in found.made])
        return self._made(found, best)

    def _save(self, offers: Sequence[Offer]) -> None:
        """Let those that get nothing save for a token that would pay, or is to be tried, and that
        they cannot pay alone."""
        plain, sharers = self._plain, _sharers(offers)
        if len(self._seconds) == plain.rows:
            return  # there is no room for another row, whatever it costs
        row = self._seconds[plain.rows] - self._seconds[plain.rows - 1]
        for offer in offers:
            first, unread = offer.reads[:1], offer.outlook.unread
            own = self._pace.shared(offer.passes, first, unread, sharers[offer.passes])
            price, control = row + next(iter(own)), self._seats[offer.request].control
            wanted = offer.waited is not None or offer.survival[0] > plain.rate * price
            beyond = offer.funds < price < SAVED * self._worth
            if isinstance(control, AdaptiveControl) and wanted and beyond:
                control.goal = min(price, control.goal or price)

    def _widest(self, offers: Sequence[Offer]) -> int:
        """Rows where each that may drafts the most that it offers."""
        most = dict[int, int]()
        for offer in offers:
            most[offer.request] = max(most.get(offer.request, 0), len(offer.survival))
        return min(self._plain.rows + sum(most.values()), self._most)

    def _preferred(
        self, offers: Sequence[Offer], by: Callable[[Offer], Hashable] = lambda one: one.request
    ) -> list[Offer]:
        """One for each request, or for each of what `by` tells apart: that with the highest rate if
        all that could share its drafter's passes did, and all pay for it."""
        if len({by(offer) for offer in offers}) == len(offers):
            return list(offers)
        sharers = _sharers(offers)
        funds = sum({offer.request: offer.funds for offer in offers}.values())
        chosen: dict[Hashable, Offer] = {}
        rates: dict[Hashable, float] = {}
        for offer in offers:
            rate, _ = self._alone(offer, sharers[offer.passes], funds)
            if by(offer) not in chosen or rate > rates[by(offer)]:
                chosen[by(offer)], rates[by(offer)] = offer, rate
        return list(chosen.values())

    def _alone(self, offer: Offer, sharers: int, funds: float) -> tuple[float, int]:
        """The highest rate of a round in which nobody else drafts, but some share the drafting; and
        how far that is drafted."""
        plain, tokens, rate, best = self._plain, self._plain.tokens, 0.0, 0
        more = self._pace.shared(offer.passes, offer.reads, offer.outlook.unread, sharers)
        limit, draft = plain.seconds + funds, plain.drafting.seconds
        rows = zip(offer.survival, self._seconds[plain.rows :], more)
        for drafted, (s, seconds, own) in enumerate(rows, start=1):
            tokens += s
            draft += own
            seconds += draft
            if seconds > limit:
                break
            if tokens > rate * seconds:
                rate, best = tokens / seconds, drafted
        return rate, best

    def _best(self, offers: Sequence[Offer], rate: float) -> Drafts | None:
        """Of the drafts passed on the way, the one with the highest rate that can be paid; None
        where none is above `rate`."""
        if len(self._seats) == 1:
            highest, count = self._alone(offers[0], 1, offers[0].funds)
            return self._with(self._plain, [(offers[0], count)]) if highest > rate else None
        plain, order = self._plain, self._order(offers)
        tokens, funds, best, drafting = plain.tokens, 0.0, 0, plain.drafting.copy()
        for n, (i, depth) in enumerate(order[: len(self._seconds) - plain.rows], start=1):
            offer = offers[i]
            funds += offer.funds if depth == 1 else 0.0
            tokens += offer.survival[depth - 1]
            drafting.add(offer.passes, offer.reads[depth - 1], offer.outlook.unread)
            seconds = self._seconds[plain.rows + n - 1] + drafting.seconds
            if tokens > rate * seconds and seconds - plain.seconds <= funds:
                rate, best = tokens / seconds, n
        counts = Counter(i for i, _ in order[:best])
        return self._with(plain, [(offers[i], n) for i, n in counts.items()]) if best else None

    def _order(self, offers: Sequence[Offer]) -> list[tuple[int, int]]:
        """Offer and depth of all that could be drafted, in the order in which rows are bought."""
        if len(offers) == 1:  # survival falls with depth
            return [(0, depth + 1) for depth in range(len(offers[0].survival))]
        dear = self._dearness(offers)
        order = sorted(
            (-s / dear[offer.passes], i, depth)
            for i, offer in enumerate(offers)
            for depth, s in enumerate(offer.survival, start=1)
        )
        return [(i, depth) for _, i, depth in order]

    def _dearness(self, offers: Sequence[Offer]) -> dict[str, float]:
        """Seconds of a token by what passes are made, where all share them: a row, and drafting, on
        average over a draft."""
        rows = len(self._seconds) - self._plain.rows
        row = (self._seconds[-1] - self._seconds[self._plain.rows - 1]) / max(rows, 1)
        sharers, dear = _sharers(offers), dict[str, float]()
        for offer in offers:
            name = offer.passes
            if name not in dear:
                own = sum(self._pace.shared(name, offer.reads, 1, sharers[name]))
                dear[name] = max(row + own / len(offer.reads), 1e-9 * self._worth)
        return dear

    def _tried(self, offers: Sequence[Offer], best: Drafts) -> Drafts | None:
        """One that does not pay beside the best: of the request that has waited longest, its first
        that it can pay for alone, and as far as has the highest rate."""
        idle = [o for o in offers if o.request not in best.made and o.waited is not None]
        longest: dict[int, int] = {}
        for offer in idle:
            longest[offer.request] = max(longest.get(offer.request, 0), offer.waited or 0)
        for offer in sorted(idle, key=lambda offer: (-longest[offer.request], offer.request)):
            tokens, rate, found = best.tokens, 0.0, 0
            drafting, left = best.drafting.copy(), len(self._seconds) - best.rows
            for depth, s in enumerate(offer.survival[:left], start=1):
                tokens += s
                drafting.add(offer.passes, offer.reads[depth - 1], offer.outlook.unread)
                seconds = self._seconds[best.rows + depth - 1] + drafting.seconds
                if seconds - best.seconds > offer.funds:
                    break
                if tokens > rate * seconds:
                    rate, found = tokens / seconds, depth
            if found:
                return self._with(best, [(offer, found)])
        return None

    def _with(self, start: Drafts, more: Sequence[tuple[Offer, int]]) -> Drafts:
        made, drafting = dict(start.made), start.drafting.copy()
        rows, tokens = start.rows, start.tokens
        for offer, count in more:
            made[offer.request] = (offer, count)
            rows += count
            tokens += sum(offer.survival[:count])
            drafting.add_all(offer.passes, offer.reads[:count], offer.outlook.unread)
        seconds = self._seconds[rows - 1] + drafting.seconds
        return Drafts(made=made, rows=rows, tokens=tokens, seconds=seconds, drafting=drafting)

    def _made(self, drafts: Drafts, best: Drafts) -> list[Plan]:
        """Plans for all; those that are no part of the best are tries."""
        paid = self._paid(drafts) if drafts.made else {}
        share = drafts.seconds / len(self._seats)
        plans = []
        for i, (seat, fixed) in enumerate(zip(self._seats, self._fixed)):
            if isinstance(seat.control, FixedControl):
                plans.append(fixed)
                continue
            offer, count = drafts.made.get(i, (None, 0))
            survival = offer.survival[:count] if offer else ()
            parents = offer.parents if offer else None
            plans.append(
                Plan(
                    drafter=offer.drafter if offer else None,
                    num_draft=count,
                    shape=None if parents is None else breadth_first(parents[:count]),
                    outlook=offer.outlook if offer else UNKNOWN,
                    expected=Expected(tokens=1 + sum(survival), seconds=share),
                    tried=offer is not None and i not in best.made,
                    worth=self._worth,
                    price=paid.get(i, 0.0) + (self._pace.look if i in self._looked else 0.0),
                    looked=i in self._looked,
                    at=self._at,
                )
            )
        return plans

    def _paid(self, drafts: Drafts) -> dict[int, float]:
        """Seconds that each pays of what the round costs beyond the plain one."""
        plain, counts = self._plain, Counter[str]()
        for offer, count in drafts.made.values():
            counts[offer.passes] += count
        rows = self._seconds[drafts.rows - 1] - self._seconds[plain.rows - 1]
        row = rows / max(drafts.rows - plain.rows, 1)
        prices = {}
        for i, (offer, count) in drafts.made.items():
            drafting = drafts.drafting.of(offer.passes) - plain.drafting.of(offer.passes)
            prices[i] = max(count * (row + drafting / counts[offer.passes]), 0.0)
        return divided(prices, {i: offer.funds for i, (offer, _) in drafts.made.items()})


def _sharers(offers: Sequence[Offer]) -> Counter[str]:
    """Requests by what passes would be made for them."""
    return Counter(passes for _, passes in {(one.request, one.passes) for one in offers})


def divided(prices: Mapping[int, float], funds: Mapping[int, float]) -> dict[int, float]:
    """Each pays its price but not more than it has; what is missing the others add, in proportion
    to theirs."""
    paid, due, left = dict.fromkeys(prices, 0.0), sum(prices.values()), set(prices)
    while due > 0 and (whole := sum(prices[i] for i in left)) > 0:
        short = {i for i in left if prices[i] * due > funds[i] * whole}
        for i in short or left:
            paid[i] = funds[i] if short else prices[i] * due / whole
        due -= sum(paid[i] for i in short or left)
        left -= short or left
    return paid
