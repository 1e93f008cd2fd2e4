"""A run: every case under every setting, in turn, until the time is over or the question is
settled.

    result = certify([case, …], Plan(minutes=5), progress=print)

Bits and seeds first: they take seconds. Then the settings in rounds, each for a slice of the time;
what is asked and in which order is fixed beforehand, and only how far the order is followed
depends on time. Where a fault is found, the same settings run again with speculation off: only a
law that is right there is a law that speculation broke.

What this module does not know: reports.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from forerun.certify.bits_verdict import BitsVerdict, bits_verdict
from forerun.certify.collect import Answer, Ask, collect
from forerun.certify.engines.base import SEEDS, Told, sample_seed
from forerun.certify.plan import Case, Plan
from forerun.certify.seed_verdict import SeedVerdict, seed_verdict
from forerun.certify.settings import Setting
from forerun.certify.tally import Tally

FIRST_PASS = 0.5
"""Share of a case's time for one look at every setting."""

OFF_FACTOR = 2
"""With speculation off, so many times the tokens that were needed with it on."""

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One request and its samples: enough to do the sums again."""

    setting: str
    prompt_number: int
    sampling: dict[str, Any]
    seed: int
    samples: tuple[tuple[int, ...], ...]
    told: tuple[Told, ...]
    off: bool = False


@dataclass
class SettingRun:
    """How a setting went, beside what its texts say."""

    setting: Setting
    asked: int = 0  # requests so far
    seconds: float = 0.0
    failures: int = 0  # attempts that failed
    ended: str | None = None  # why no more are asked
    unable: bool = False


@dataclass
class CaseRun:
    """Everything of one case."""

    case: Case
    tally: Tally
    settings: dict[str, SettingRun] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    off: Tally | None = None  # the same with speculation off, of the settings that failed
    off_error: str | None = None
    ended: str | None = None  # why it ended before its time
    bits: BitsVerdict | None = None
    seeds: SeedVerdict | None = None
    seconds: float = 0.0

    @property
    def failing(self) -> list[str]:
        return [name for name, part in self.tally.parts.items() if part.fault]

    @property
    def fault(self) -> bool:
        return self.tally.whole.fault or bool(self.failing)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is shown while it runs."""

    case: str
    setting: str
    tokens: int  # of the case
    log_e: float  # natural log of the case's e-value, so far
    threshold: float  # natural log
    left: float  # seconds
    fault: bool = False


Watcher = Callable[[Progress], None]


def certify(
    cases: Sequence[Case],
    plan: Plan,
    *,
    progress: Watcher = lambda _: None,
    clock: Clock = time.monotonic,
    stop: Callable[[], bool] = lambda: False,
) -> list[CaseRun]:
    """Run every case within the plan's time, the shares of which are the cases' own.

    stop  whether to end now, with what there is; what runs is drained
    """
    end = clock() + 60 * plan.minutes
    found, left = [], sum(case.share for case in cases)
    for case in cases:
        share = case.share / left * max(end - clock(), 0.0)
        left -= case.share
        run = _Run(case, plan, len(cases), clock, clock() + share, progress, stop)
        found.append(run.go())
    return found


def tally_of(case: Case, plan: Plan, cases: int) -> Tally:
    """Half of the level for a case's whole, half for its settings, in equal parts."""
    whole = plan.level_of(2 * cases)
    return Tally(
        case.reference,
        level=whole,
        part_level=whole / max(len(case.settings), 1),
        seed=plan.seed,
        draft=case.draft,
    )


class _Run:
    """One case."""

    def __init__(
        self,
        case: Case,
        plan: Plan,
        cases: int,
        clock: Clock,
        end: float,
        progress: Watcher,
        stop: Callable[[], bool],
    ) -> None:
        self.case, self.plan, self._clock, self._end = case, plan, clock, end
        self._cases, self._progress, self._stop = cases, progress, stop
        self._numbers = itertools.count()  # of samples, for seeds of their own
        self._base = (plan.seed * 0x85EBCA6B + 1) % SEEDS
        self.run = CaseRun(case, tally_of(case, plan, cases))

    def go(self) -> CaseRun:
        start, run = self._clock(), self.run
        self._bits_and_seeds()
        run.settings = {each.name: SettingRun(each) for each in self.case.settings}
        begun = self._clock()
        first = (self._end - begun) * FIRST_PASS / max(len(run.settings), 1)
        for number, each in enumerate(run.settings.values()):
            self._slice(each, min(begun + first * (number + 1), self._end))
        while not run.fault and not self._over():
            alive = [each for each in run.settings.values() if each.ended is None]
            if not alive:
                break
            span = max((self._end - self._clock()) / len(alive) / 2, 0.5)
            for each in alive:
                self._slice(each, min(self._clock() + span, self._end))
                if run.fault or self._over():
                    break
        for part in (run.tally.whole, *run.tally.parts.values()):
            part.test.verdict()  # a look at the last tokens too
        if run.fault:
            self._switch_off()
        run.seconds = self._clock() - start
        return run

    def _bits_and_seeds(self) -> None:
        case, run = self.case, self.run
        length = max(max(each.lengths) for each in case.settings) if case.settings else 8
        few = list(case.prompts)[:4]
        self._say("greedy text")
        run.bits = bits_verdict(case.engine, case.reference, few, max_tokens=length)
        self._say("seeds")
        samplings = [each.asked(0) for each in case.settings[:6] if each.num_draft is None] or [
            {"max_tokens": length}
        ]
        base = sample_seed(self._base, SEEDS // 2)  # away from those of the samples
        run.seeds = seed_verdict(case.engine, few[:2], samplings, seed=base)

    # ------------------------------------------------------------------ sampling

    def _slice(self, each: SettingRun, end: float) -> None:
        """Requests of one setting until `end`, but at least one while there is time at all."""
        if each.ended is not None or self._over():
            return
        before, begun = each.asked, self._clock()

        def stop() -> bool:
            full = self.plan.tokens is not None and self._tokens(each) >= self.plan.tokens
            late = self._clock() >= end or self._stop()
            return full or (each.asked > before and late)

        for answer in collect(self.case.engine, self._asks(each), stop=stop, clock=self._clock):
            self._take(each, answer)
        each.seconds += self._clock() - begun
        if self.plan.tokens is not None and self._tokens(each) >= self.plan.tokens:
            each.ended = each.ended or "as many tokens as asked for"
        elif self.run.tally.part(each.setting.name).fault:
            each.ended = each.ended or "a fault was found"

    def _over(self) -> bool:
        return self._clock() >= self._end or self._stop()

    def _tokens(self, each: SettingRun) -> int:
        return self.run.tally.part(each.setting.name).test.tokens

    def _asks(self, each: SettingRun, *, off: bool = False) -> Iterator[Ask]:
        """The order of requests, without end."""
        for index in itertools.count(0 if off else each.asked):
            sampling = each.setting.asked(index)
            if off:
                sampling["num_draft"] = 0
            number = next(self._numbers)
            for _ in range(self.case.samples - 1):
                next(self._numbers)
            which = index % len(self.case.prompts)
            if not off:
                each.asked += 1
            yield Ask(
                number=number,
                setting=each.setting.name,
                prompt=self.case.prompts[which],
                prompt_number=which,
                n=self.case.samples,
                sampling=sampling,
                seed=sample_seed(self._base, number),
            )

    def _take(self, each: SettingRun, answer: Answer) -> None:
        each.failures += answer.failures
        if answer.error is not None:
            each.ended, each.unable = answer.error, answer.unable
            if not answer.unable and self._tokens(each):
                # it may have failed for what was drawn: what comes behind it must not count
                self.run.ended = f"{each.setting.name}: {answer.error}"
                self._end = self._clock()
            return
        self._record(answer, off=False)
        ask = answer.ask
        self.run.tally.add(ask.setting, ask.prompt, answer.samples, ask.sampling, answer.told)
        self._say(ask.setting)

    def _record(self, answer: Answer, *, off: bool) -> None:
        ask = answer.ask
        self.run.records.append(
            Record(
                setting=ask.setting,
                prompt_number=ask.prompt_number,
                sampling=dict(ask.sampling),
                seed=ask.seed,
                samples=answer.samples,
                told=answer.told,
                off=off,
            )
        )

    # ------------------------------------------------------------------ speculation off

    def _switch_off(self) -> None:
        """The settings that failed, with speculation off, until they had twice the tokens."""
        run = self.run
        if not self.case.engine.traits.switches:
            run.off_error = f"{self.case.engine.name} cannot turn speculation off"
            return
        if self._stop():
            run.off_error = "the run was stopped before it was turned off"
            return
        names = run.failing or list(run.tally.parts)
        run.off = tally_of(self.case, self.plan, self._cases)
        # as long again as it took, whatever is left: a verdict without it is worth little
        end = max(self._end, self._clock()) + max(30.0, 60 * self.plan.minutes / 2)
        for name in names:
            each, wanted = run.settings[name], self._needed(name)
            self._off_setting(each, wanted, end)

    def _needed(self, name: str) -> int:
        return OFF_FACTOR * self.run.tally.part(name).test.tokens

    def _off_setting(self, each: SettingRun, wanted: int, end: float) -> None:
        off = self.run.off
        assert off is not None
        part = off.part(each.setting.name)

        def stop() -> bool:
            late = self._clock() >= end or self._stop()
            return part.test.tokens >= wanted or part.fault or late

        for answer in collect(
            self.case.engine, self._asks(each, off=True), stop=stop, clock=self._clock
        ):
            if answer.error is not None:
                self.run.off_error = answer.error
                return
            self._record(answer, off=True)
            ask = answer.ask
            sampling = {k: v for k, v in ask.sampling.items() if k != "num_draft"}
            off.add(ask.setting, ask.prompt, answer.samples, sampling, answer.told)
            self._say(f"{ask.setting}, speculation off", off)

    def _say(self, setting: str, tally: Tally | None = None) -> None:
        test = (tally or self.run.tally).whole.test
        log_e = test.history[-1][1] if test.history else 0.0
        self._progress(
            Progress(
                case=self.case.name,
                setting=setting,
                tokens=test.tokens,
                log_e=log_e,
                threshold=_threshold(test.level),
                left=max(self._end - self._clock(), 0.0),
                fault=self.run.fault,
            )
        )


def _threshold(level: float) -> float:
    return -math.log(level)
