"""The exact output law of the production loop, by running it under every outcome of its randomness.

`EnumeratedDraws` answers each `accept` and `draw` from a tape that is rewound and advanced until
every branch was taken; each run of the scheduler's turn (admission, a chunk of prompts, the round)
is weighted with the product of its branches' probabilities. At a turn's end, branches that left the
loop in the same state (committed tokens, cache slots, drafter, round counters, who waits) are
merged and their weights added; a turn itself is never shortened.

    law[y] = Σ over all ways the loop can write y          compare with  Π p(y_t | h, y_<t)

No sampling, and no tolerance to tune: total variation below 1e-12 in float64, or it is wrong. How a
state is kept: `snapshot.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from forerun.certify.snapshot import Shared
from forerun.drafters import drafter as find_drafter
from forerun.drafters.base import Drafter
from forerun.drafters.per_request import PerRequestDrafter
from forerun.engine.choices import AUTO
from forerun.engine.job import Job
from forerun.engine.prompt import Prompt, prompt_ids
from forerun.engine.prompt_pace import PromptPace
from forerun.engine.request import checked_grammar, checked_params, make_request
from forerun.engine.scheduler import Scheduler
from forerun.errors import KeyReuseError, OptionError
from forerun.models.base import Model, Step
from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import Key, Purpose, host
from forerun.pace import Costs, Pace, checked_costs
from forerun.text.grammar import Grammar
from forerun.trace import Round

Law = dict[tuple[int, ...], float]
"""Probability of every output; keys end with the id that ended the text."""


class Tape:
    """A walk through a tree of choices, depth first: run, `advance`, run again, until it is
    False."""

    def __init__(self) -> None:
        self._branches: list[int] = []  # taken at each choice
        self._choices: list[list[float]] = []  # probabilities at each choice
        self._place = 0
        self.weight = 1.0

    def rewind(self) -> None:
        self._place, self.weight = 0, 1.0

    def choose(self, probabilities: Sequence[float]) -> int:
        """A branch of probability above 0; every one of them in some run."""
        if self._place == len(self._branches):
            first = next(i for i, w in enumerate(probabilities) if w > 0)
            self._branches.append(first)
            self._choices.append(list(probabilities))
        branch = self._branches[self._place]
        self.weight *= self._choices[self._place][branch]
        self._place += 1
        return branch

    def advance(self) -> bool:
        """Turn to the next branch not yet taken; False when there is none."""
        while self._branches:
            branch, choices = self._branches.pop(), self._choices.pop()
            later = next((i for i in range(branch + 1, len(choices)) if choices[i] > 0), None)
            if later is not None:
                self._branches.append(later)
                self._choices.append(choices)
                return True
        return False


class EnumeratedDraws:
    """A source of randomness in which every call is an independent choice on the tape.

    A target's race is one choice from p per position and prefix, remembered within the round (later
    rounds start behind it); a drafter's race is an independent choice from q. That checks the
    emitted law; coupling itself is proved by token equality with plain decoding.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._round = -1
        self._used: set[Key] = set()
        self._raced: dict[tuple[int, ...], int] = {}

    def begin_round(self, index: int, position: int) -> None:
        if index <= self._round:
            raise KeyReuseError(f"round {index} after round {self._round}: its keys may be spent")
        self._round = index
        self._used = set()
        self._raced = {}

    def accept(self, probability: float, key: Key) -> bool:
        self._use(key)
        if not 0 < probability < 1:
            return probability > 0
        return self._tape.choose((probability, 1 - probability)) == 0

    def draw(self, law: Any, key: Key) -> int:
        self._use(key)
        return self._choose(law)

    def race(self, law: Any, path: tuple[int, ...], purpose: Purpose) -> int:
        if purpose is Purpose.DRAFT:
            return self._choose(law)
        if path not in self._raced:
            self._raced[path] = self._choose(law)
        return self._raced[path]

    def coin(self, key: Key) -> float | None:
        return None

    def _choose(self, law: Any) -> int:
        p = np.asarray(host(law), dtype=np.float64)
        return self._tape.choose((p / p.sum()).tolist())

    def _use(self, key: Key) -> None:
        if key in self._used:
            raise KeyReuseError(f"{key[1].name} of node {key[0]} was drawn before in this round")
        self._used.add(key)


def exact_law(
    target: Model,
    drafter: Drafter | str | None = None,
    *,
    verifier: str = AUTO,
    num_draft: int | Literal["auto"] = 4,
    costs: Costs | Sequence[float] | None = None,
    prompt: Prompt = (0,),
    max_tokens: int,
    company: Sequence[tuple[Prompt, Mapping[str, Any]]] = (),
    **sampling: Any,
) -> Law:
    """The exact law of the first request's output, as the production loop writes it.

    `company` are further requests, (prompt, sampling), that run in the same rounds; a company's
    sampling may hold `max_tokens` and the engine's options too: `num_draft`, `verifier`, `drafter`,
    `prediction`. `arrives`, in anybody's, is the turn before which a request comes, 0 by default.
    Beside requests that decode, CHUNK tokens of prompts are read between two rounds. Where the
    target's memory is too small for all, some wait, or give way.

    With num_draft="auto" γ depends on what was accepted before and on `costs`, as `Engine` takes
    them; None: those that the models state. They must be fixed, for times are no function of the
    state. Cost grows with the number of outcomes of a round: meant for vocabularies of a few
    tokens. `target` and `drafter` must be plain Python state (picklable); they are not changed.
    Raises what the loop raises.
    """
    guesser = PerRequestDrafter(find_drafter(drafter))
    guesser.check(target)
    priced = Costs.measured(target, guesser) if costs is None else checked_costs(costs)
    if not priced.fixed:
        raise OptionError("exact_law needs fixed costs: seconds of a pass over 1, 2, … rows")
    shared = Shared()
    tape = Tape()
    target, guesser = shared.load(shared.dump((target, guesser), tape), tape)
    own = {"max_tokens": max_tokens, **sampling}
    jobs: list[_Job] = []
    coming: list[tuple[int, _Job]] = []
    for index, (ids, options) in enumerate([(prompt, own), *company]):
        settings = dict(options)
        turn = settings.pop("arrives", 0)
        request = make_request(
            target, guesser, ids, settings, index=index, verifier=verifier, num_draft=num_draft
        )
        draws = EnumeratedDraws(tape)
        jobs.append(_Job(request, number=index, draws=draws))
        coming.append((turn, jobs[-1]))
    coming.sort(key=lambda each: each[0])
    for number, (_, job) in enumerate(coming):
        job.number = number
    scheduler = Scheduler(
        target,
        guesser,
        max_batch=len(jobs),
        pace=_Fixed(Pace(priced)),
        prompt_pace=_SmallChunks(),
        clock=lambda: 0.0,
    )
    loop = _Loop(scheduler, jobs[0], coming)

    found: Law = {}
    frontier = {shared.dump(loop, tape): 1.0}
    while frontier:
        following: dict[bytes, float] = {}
        for blob, weight in frontier.items():
            tape = Tape()
            more = True
            while more:
                tape.rewind()
                loop = shared.load(blob, tape)
                loop.advance()
                reached = weight * tape.weight
                if (done := loop.first.done) is not None:
                    if done.error is not None:
                        raise done.error
                    found[done.tokens] = found.get(done.tokens, 0.0) + reached
                else:
                    key = shared.dump(loop, tape)
                    following[key] = following.get(key, 0.0) + reached
                more = tape.advance()
        frontier = following
    return found


def plain_law(
    target: Model,
    *,
    prompt: Prompt = (0,),
    max_tokens: int,
    grammar: Grammar | None = None,
    **sampling: Any,
) -> Law:
    """Π p(y_t | h, y_<t) of every output y: what plain decoding writes, without the loop."""
    params = checked_params(target, {"max_tokens": max_tokens, **sampling})
    compiled = checked_grammar(target, grammar, params)
    ids = prompt_ids(target, prompt)
    limit = len(ids) + max_tokens
    limit = limit if target.context is None else min(limit, target.context)
    found: Law = {}
    frontier: Law = {(): 1.0}
    slot = target.open()
    try:
        while frontier:
            following: Law = {}
            for output, weight in frontier.items():
                text = (*ids, *output)
                target.keep(slot, 0)
                logits = target.extend([Step(slot=slot, tokens=text, rows=1)])[0][-1]
                allowed = None
                if compiled is not None:
                    allowed = compiled.start(target.vocab_size, params.end_ids).allowed(output)
                here = law(logits, params, History(text, len(ids)), allowed)
                p = np.asarray(host(here), dtype=np.float64)
                for token in np.flatnonzero(p):
                    longer = (*output, int(token))
                    ended = int(token) in params.end_ids or len(ids) + len(longer) >= limit
                    (found if ended else following)[longer] = weight * float(p[token])
            frontier = following
    finally:
        target.close(slot)
    return found


def total_variation(a: Law, b: Law) -> float:
    """½ Σ |a − b| over all outputs of either."""
    return 0.5 * sum(abs(a.get(y, 0.0) - b.get(y, 0.0)) for y in a.keys() | b.keys())


CHUNK = 3
"""Tokens of prompts that are read between two rounds."""


class _Fixed:
    """The pace all share; a part of the state."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def __call__(self) -> Pace:
        return self._pace


class _SmallChunks(PromptPace):
    """A pace that goes by no times."""

    def tokens(self, *, decoding: bool) -> int:
        return CHUNK if decoding else super().tokens(decoding=False)


class _Job(Job):
    """A request that keeps no trace: times are no part of its state."""

    def deliver(self, record: Round, at: float) -> None:
        pass


class _Loop:
    """The production scheduler, its requests, and those that have yet to come."""

    def __init__(self, scheduler: Scheduler, first: _Job, coming: list[tuple[int, _Job]]) -> None:
        self.scheduler, self.first, self.coming = scheduler, first, coming
        self.turn = 0

    def advance(self) -> None:
        """One turn."""
        self.scheduler.arrived.extend(job for turn, job in self.coming if turn <= self.turn)
        self.coming = [(turn, job) for turn, job in self.coming if turn > self.turn]
        self.turn += 1
        self.scheduler.turn()
