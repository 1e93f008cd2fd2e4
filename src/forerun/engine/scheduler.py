"""Who runs: requests join and leave between rounds.

    turn:  retire -> admit -> read a chunk of prompts -> one round for all that decode -> retire

Requests wait in the order they came, for one of `max_batch` slots and for memory. One is admitted
where there is room for AHEAD tokens more of each. Where memory runs out all the same, the youngest
leaves its slot and waits at the head of the queue; its state (ids, round, draws, control, text)
stays, and it goes on once its ids are read again. So what each writes does not depend on the
others, and of two that outgrow the memory none fails.

A bug, or an interrupt, in the middle of a turn leaves models and drafter in no known state: every
request that had a slot ends in error, those that wait do not notice.

What this module does not know: threads (`driver.py`), streams, where requests come from.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic

from forerun.decode import decode_round
from forerun.drafters.per_request import PerRequestDrafter
from forerun.engine.job import Job
from forerun.engine.prompt_pace import PromptPace
from forerun.engine.request import Request, begin_decoding, limit, new_generation
from forerun.engine.shared_prompt import SharedPrompt
from forerun.errors import CacheError, ForerunError, RoundError
from forerun.generation import FinishReason, Generation
from forerun.models.base import Model
from forerun.models.cost import WIDEST
from forerun.models.prefix_cache import PrefixCache
from forerun.pace import Pace
from forerun.reading import read_prompts, unread

log = logging.getLogger("forerun")

AHEAD = 64  # tokens


class Scheduler:
    """Takes turns for `Job`s. Jobs come by `arrived` and leave by `left`, from any thread; the rest
    is called by one thread at a time."""

    def __init__(
        self,
        target: Model,
        drafter: PerRequestDrafter,
        *,
        max_batch: int,
        pace: Callable[[], Pace],
        prefixes: PrefixCache | None = None,
        prompt_pace: PromptPace | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._target, self._drafter = target, drafter
        self._max_batch, self._costed = max_batch, pace
        self._prefixes = prefixes
        self.clock = clock
        self.arrived: deque[Job] = deque()
        self.left: deque[Job] = deque()  # to be ended
        self.closed = False  # all are to be ended
        self.cache_bytes = 0  # after the last turn
        self._waiting: deque[Job] = deque()
        self._reading: list[Job] = []
        self._decoding: list[Job] = []
        self._pace = PromptPace() if prompt_pace is None else prompt_pace
        self._full = False  # the model refused what should fit, and no request has ended since
        self.turns = 0  # taken, or begun
        self.preempted = 0  # times that a request left its slot for others

    # ------------------------------------------------------------------ seen from any thread

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self.arrived)

    @property
    def reading(self) -> int:
        return len(self._reading)

    @property
    def decoding(self) -> int:
        return len(self._decoding)

    @property
    def free(self) -> int:
        """Requests that could be admitted now, as far as is known."""
        held = self.reading + self.decoding
        return 0 if self._full and held else max(self._max_batch - held, 0)

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.reading or self.decoding)

    @property
    def leaving(self) -> bool:
        """Whether `retire` has something to do."""
        return bool(self.left) or (self.closed and not self.idle)

    # ------------------------------------------------------------------ turns

    def turn(self) -> bool:
        """One turn; False where there was nothing to do."""
        if self.idle:
            return False
        self.turns += 1
        try:
            self.retire()
            self._admit()
            self._read()
            self._round()
            self.retire()
        except BaseException as error:
            self._abort(error)
            raise
        return True

    def retire(self) -> None:
        """End what was cancelled, and what is past its deadline."""
        while self.arrived:
            self._waiting.append(self.arrived.popleft())
        if self.closed:
            self.left.extend(self._all())
        while self.left:
            self._end(self.left.popleft(), "cancelled")
        timed = [job for job in self._all() if job.deadline is not None]
        if timed:
            now = self.clock()
            for job in timed:
                if job.deadline is not None and now >= job.deadline:
                    self._end(job, "cancelled")
        self.cache_bytes = getattr(self._target, "cache_bytes", 0)

    def _all(self) -> Iterable[Job]:
        return (*self._waiting, *self._reading, *self._decoding)

    @property
    def _holders(self) -> list[Job]:
        """Those that have a slot."""
        return [*self._reading, *self._decoding]

    # ------------------------------------------------------------------ admission

    def refusal(self, request: Request) -> CacheError | None:
        """Why a request can never be served, alone as it may be; None where it can."""
        fits, length = self._target.fits, limit(self._target, request) - 1  # the last is not cached
        if fits([length]):
            return None
        most = bisect_left(range(length), True, key=lambda n: not fits([n])) - 1
        return CacheError(
            f"a prompt of {len(request.prompt)} tokens and an answer of at most "
            f"{length + 1 - len(request.prompt)} need a cache of {length} tokens, and "
            f"{self._target.name} has memory for {max(most, 0)}"
        )

    def _admit(self) -> None:
        while self._waiting and self.free:
            job = self._waiting[0]
            if self._holders and not self._target.fits(self._lengths([*self._holders, job], AHEAD)):
                return
            try:
                self._open(job)
            except CacheError as error:
                if self._holders:  # there is no memory until others have ended
                    self._full = True
                    return
                self._end(job, "error", error)
            except ForerunError as error:
                self._end(job, "error", error)
            except BaseException as error:
                self._end(job, "error", broken(error))
                raise
            else:
                self._reading.append(job)
                self._waiting.popleft()

    def _lengths(self, jobs: Sequence[Job], ahead: int) -> list[int]:
        """What their slots may hold so many tokens later."""
        return [min(job.length + ahead, limit(self._target, job.request) - 1) for job in jobs]

    def _open(self, job: Job) -> None:
        g = job.generation
        if g is None:
            pace = self._costed() if job.request.num_draft is None else None
            g = new_generation(self._target, job.request, job.draws, pace)
            job.begin(g)
        g.slot = self._target.open()
        known = 0
        if self._prefixes is not None and g.prompt_scored:
            try:
                known = self._prefixes.fetch(job.request.tenant, g.ids, g.slot)
            except CacheError:
                self._target.close(g.slot)
                raise
        if job.admitted is None:
            job.admitted = self.clock()
        if job.cached_tokens is None:  # later it may know what it read itself
            job.cached_tokens = min(known, g.prompt_length)

    # ------------------------------------------------------------------ reading

    def _read(self) -> None:
        """One pass over the texts that are not cached yet; those that now are begin to decode."""
        for job, g in pairs(self._reading):
            try:
                if job.shared is not None:
                    job.shared.restore(g, self._target)
            except CacheError as error:
                self._make_room([job], error)
        while self._reading:
            began, most = self.clock(), self._pace.tokens(decoding=bool(self._decoding))
            try:
                count = read_prompts(self._readers(), self._target, most)
            except CacheError as error:
                self._make_room(self._reading, error)
                continue
            self._pace.read(count, self.clock() - began)
            self._reading.append(self._reading.pop(0))  # another comes first in the next pass
            break
        for job, g in pairs(self._reading):
            if not unread(g, self._target):
                self._begin(job, g)

    def _readers(self) -> list[Generation]:
        """Those that read: all, but of the choices of one prompt the one that reads for them."""
        groups: dict[SharedPrompt, list[Generation]] = {}
        for job, g in pairs(self._reading):
            if job.shared is not None and unread(g, self._target):
                groups.setdefault(job.shared, []).append(g)
        chosen = {shared: shared.reader(group, self._target) for shared, group in groups.items()}
        return [
            g
            for job, g in pairs(self._reading)
            if job.shared is None or chosen.get(job.shared) in (None, g)
        ]

    def _begin(self, job: Job, g: Generation) -> None:
        """Its text is read: from now on it decodes, unless that was all."""
        try:
            if g.finish_reason is None:
                if job.shared is not None:
                    job.shared.keep(g, self._target)
                    job.shared = None
                self._remember(job, g)
                begin_decoding(g, job.request, self._drafter)
                job.drafting = True
        except ForerunError as error:
            g.fail(error)
        if g.finish_reason is not None:
            self._end(job, g.finish_reason, g.error)
            return
        self._decoding.append(job)
        self._reading.remove(job)

    # ------------------------------------------------------------------ the round

    def _round(self) -> None:
        self._make_sure()
        while self._decoding:
            batch = [g for _, g in pairs(self._decoding)]
            lengths, began = [len(g.ids) for g in batch], self.clock()
            try:
                records = iter(decode_round(batch, self._target, self._drafter))
            except CacheError as error:
                if [len(g.ids) for g in batch] != lengths:  # not the pass, but what came after it
                    return self._fail(error)
                broke_off(batch)
                self._make_room(self._holders, error)
                continue
            except ForerunError as error:
                return self._fail(error)
            now = self.clock()
            self._pace.decoded(now - began)
            for job, g in pairs(self._decoding):
                if g.error is None:
                    job.deliver(next(records), now)
                if g.finish_reason is not None:
                    self._end(job, g.finish_reason, g.error)
                elif job.notify is not None:
                    self._notify(job)
            return None

    def _fail(self, error: ForerunError) -> None:
        """The round itself failed: none of those that shared it can go on."""
        for job in list(self._decoding):
            self._end(job, "error", error)

    # ------------------------------------------------------------------ leaving

    def _make_sure(self) -> None:
        """That there is memory for the round, with the longest drafts it may have."""
        while self._decoding and len(self._holders) > 1:
            drafts = [
                WIDEST - 1 if job.request.num_draft is None else job.request.num_draft
                for job in self._decoding
            ]
            wanted = [self._lengths([job], n)[0] for job, n in zip(self._decoding, drafts)]
            held = [self._target.length(g.slot) for _, g in pairs(self._reading)]
            if self._target.fits([*wanted, *held]):
                return
            self._preempt(max(self._holders, key=lambda job: job.number))

    def _make_room(self, among: Sequence[Job], error: CacheError) -> None:
        """Send the youngest of these back to the queue. One that is alone has failed."""
        youngest = max(among, key=lambda job: job.number)
        if len(self._holders) == 1:
            self._end(youngest, "error", error)
            return
        self._preempt(youngest)
        self._full = True  # until another has ended

    def _preempt(self, job: Job) -> None:
        """It waits again, before all that came after it."""
        self._close(job, remember=True)
        self._waiting.appendleft(job)
        self.preempted += 1

    def _end(self, job: Job, reason: FinishReason, error: ForerunError | None = None) -> None:
        if job.done is not None:
            return
        if job in self._waiting:
            self._waiting.remove(job)
        self._close(job, remember=reason != "error")
        if job.shared is not None:
            job.shared.leave()
            job.shared = None
        job.finish(reason, error, self.clock())
        self._notify(job)
        job.notify = None

    def _close(self, job: Job, *, remember: bool = False) -> None:
        """Free its slot on both sides; `remember` what it holds, which must be in order."""
        g, drafting, job.drafting = job.generation, job.drafting, False
        held = [among for among in (self._reading, self._decoding) if job in among]
        for among in held:
            among.remove(job)
        if g is not None and held:
            self._full = False
            if remember:
                self._remember(job, g)
            self._target.close(g.slot)
            if drafting:
                self._drafter.end(g.slot)

    def _remember(self, job: Job, g: Generation) -> None:
        if self._prefixes is not None:
            self._prefixes.store(job.request.tenant, g.ids, g.slot)

    def _abort(self, error: BaseException) -> None:
        said = broken(error)
        for job in self._holders:
            with suppress(Exception):  # whatever broke may break again
                self._close(job)
            self._end(job, "error", said)

    def _notify(self, job: Job) -> None:
        if job.notify is not None:
            try:
                job.notify()
            except Exception:
                log.exception("a listener failed")


def broke_off(batch: Sequence[Generation]) -> None:
    """A round failed before anything was judged: its randomness was looked at, and is spent."""
    for g in batch:
        g.round += 1


def broken(error: BaseException) -> RoundError:
    return RoundError(f"a round broke off: {type(error).__name__}: {error}")


def pairs(jobs: Sequence[Job]) -> list[tuple[Job, Generation]]:
    """Of jobs that were admitted, with their state."""
    return [(job, job.generation) for job in jobs if job.generation is not None]
