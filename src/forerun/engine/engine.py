"""The engine: requests in, tokens out, round by round.

A minimal one: requests of a call wait in order for one of `max_batch` slots and for memory, and
those that run share every round. Calls of several threads queue; streams take their rounds in
between.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Unpack

from forerun.decode import Generation, decode_round
from forerun.drafters import drafter as find_drafter
from forerun.drafters.base import Drafter
from forerun.engine.choices import AUTO, check_verifier, checked_num_draft
from forerun.engine.request import (
    Completion,
    Prompt,
    Request,
    close_generation,
    completion,
    make_request,
    open_generation,
    refused,
)
from forerun.engine.stream import Progress, Stream
from forerun.errors import CacheError, CapabilityError, ForerunError, OptionError
from forerun.models.base import Model
from forerun.pace import Costs, checked_costs
from forerun.sampling import SamplingOptions
from forerun.trace import Round


class EngineOptions(SamplingOptions, total=False):
    """Keywords of one request: sampling, and how it is decoded."""

    verifier: str
    num_draft: int | Literal["auto"]
    logprobs: int | None
    prompt_logprobs: int | None


class Engine:
    """Decodes with `target`, helped by `drafter`; the law of the output is the target's alone.

    target      a Model
    drafter     a Drafter, the name of one that needs no argument ("ngram", "suffix"), or None
    verifier    "auto", or a name in `verifiers.VERIFIERS`
    num_draft   γ: tokens drafted per round; 0 is plain decoding. "auto": what promises most tokens
                per second, round by round, 15 at most (`control.py`). That needs to know what
                passes cost: they are measured before the first request that drafts, which takes a
                second or two for each model, once per machine for models from files
    max_batch   most requests that share a round
    trace_heads record in each trace the likeliest tokens of the law behind the round's last draw
    costs       `Costs`, or seconds of a pass over 1, 2, … rows, instead of measuring them
    cache       folder forerun keeps measured costs in; None: the user's cache folder

    Raises OptionError, UnknownNameError, VocabularyError or CapabilityError before the first token.
    An engine is a context manager and may be shared by threads. Its models and drafter may not:
    two engines over one model must be used from one thread.
    """

    def __init__(
        self,
        target: Model,
        drafter: Drafter | str | None = None,
        *,
        verifier: str = AUTO,
        num_draft: int | Literal["auto"] = AUTO,
        max_batch: int = 8,
        trace_heads: bool = False,
        costs: Costs | Sequence[float] | None = None,
        cache: Path | None = None,
    ) -> None:
        if not isinstance(target, Model):
            raise OptionError(
                f"target takes a Model, not {target!r}; names and paths go to forerun.load"
            )
        self.target = target
        self.drafter = find_drafter(drafter)
        self.verifier = verifier
        checked_num_draft(num_draft)
        self.num_draft = num_draft
        if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
            raise OptionError(f"max_batch must be a whole number of at least 1, not {max_batch!r}")
        self.max_batch = max_batch
        self.trace_heads = trace_heads
        self._costs = None if costs is None else checked_costs(costs)
        self._cache = cache
        self._turn = threading.RLock()  # one call at a time
        self._lock = threading.Lock()  # one round at a time
        self._owner: int | None = None  # thread of the round that runs
        self._left: deque[Generation] = deque()  # of calls that were left; slots to be closed
        self._full = False  # a request found no memory, and no slot was closed since
        self._closed = False
        self._check()

    def _check(self) -> None:
        check_verifier(self.verifier, self.drafter)
        if self.drafter is None:
            return
        abilities, traits = self.target.abilities, self.drafter.traits
        if not abilities.rollback:
            raise CapabilityError(
                f"{self.target.name} cannot roll back, so it cannot verify drafts"
            )
        if not traits.chain and not abilities.trees:
            raise CapabilityError(
                f"{self.target.name} reads no trees, {self.drafter.name} drafts them"
            )
        self.drafter.check(self.target)

    # ------------------------------------------------------------------ calls

    def generate(self, prompt: Prompt, **options: Unpack[EngineOptions]) -> Completion:
        """Complete one prompt: text, chat messages, or token ids. Raises what ended it in error."""
        done = self.generate_batch([prompt], [options])[0]
        if done.error is not None:
            raise done.error
        return done

    def generate_batch(
        self,
        prompts: Sequence[Prompt],
        params: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    ) -> list[Completion]:
        """Complete several prompts, each as it would be alone. `params`: one for each, or for all.

        All requests are checked before the first token; a run-time error is in its `done.error`.
        """
        if isinstance(prompts, (str, bytes)):
            raise OptionError("generate_batch takes a list of prompts; for one prompt use generate")
        prompts = list(prompts)
        shared = params is None or isinstance(params, Mapping)
        each = [params] * len(prompts) if shared else list(params or [])
        if len(each) != len(prompts):
            raise OptionError(f"{len(prompts)} prompts but {len(each)} params: give one for each")
        requests = [self._request(i, *pair) for i, pair in enumerate(zip(prompts, each))]
        traces: list[list[Round]] = [[] for _ in requests]
        done: dict[int, Completion] = {}
        with self._turn, closing(self._run(requests)) as progress:
            for request, g, record in progress:
                if isinstance(g, ForerunError):
                    done[request.index] = refused(request, g, self.drafter)
                    continue
                if record is not None:
                    traces[request.index].append(record)
                if g.finish_reason is not None:
                    done[request.index] = completion(request, g, traces[request.index])
        return [done[i] for i in range(len(requests))]

    def stream(self, prompt: Prompt, **options: Unpack[EngineOptions]) -> Stream:
        """Complete one prompt, a piece per round. The request is checked before this returns."""
        request = self._request(0, prompt, options)
        return Stream(request, self._run([request]), self.drafter)

    def costs(self) -> Costs:
        """What passes cost; measured now if they were not yet. No round runs meanwhile."""
        with self._lock:
            return self._measured()

    def close(self) -> None:
        """Refuse further calls. Models are the caller's and stay as they are."""
        self._closed = True

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ the loop

    def _request(self, index: int, prompt: Prompt, options: Any) -> Request:
        if self._closed:
            raise OptionError("this engine is closed")
        if not isinstance(options, Mapping | None):
            raise OptionError(f"params takes a dict of keywords for each prompt, not {options!r}")
        return make_request(
            self.target,
            self.drafter,
            prompt,
            options or {},
            index=index,
            verifier=self.verifier,
            num_draft=self.num_draft,
        )

    def _run(self, requests: Sequence[Request]) -> Generator[Progress, None, None]:
        """Rounds until every request has ended; closing the iterator frees what still runs."""
        waiting = deque(requests)
        running: dict[int, tuple[Request, Generation]] = {}  # by slot
        try:
            while waiting or running:
                if self._owner == threading.get_ident():
                    raise OptionError("a processor or drafter cannot call the engine it runs in")
                with self._lock:
                    self._owner = threading.get_ident()
                    try:
                        progress = self._round(waiting, running)
                    finally:
                        self._owner = None
                self._sweep()
                yield from progress
        finally:
            self._left.extend(g for _, g in running.values())
            self._sweep()

    def _sweep(self) -> None:
        """Close the slots of calls that were left early.

        A dropped stream is closed by whoever collects garbage, maybe by this thread in the middle
        of a round of its own. So never wait for the lock: who holds it sweeps after its round.
        """
        while self._left and self._lock.acquire(blocking=False):
            try:
                while self._left:
                    self._close(self._left.popleft())
            finally:
                self._lock.release()

    def _close(self, g: Generation) -> None:
        close_generation(g, self.target, self.drafter)
        self._full = False

    def _round(
        self, waiting: deque[Request], running: dict[int, tuple[Request, Generation]]
    ) -> list[Progress]:
        self._retire(running)  # those cancelled between rounds
        progress: list[Progress] = []
        while waiting and len(running) < self.max_batch and not (self._full and running):
            error = self._admit(waiting[0], running)
            if error is not None and running:
                break  # there is no memory until others have ended
            request = waiting.popleft()
            if error is not None:
                progress.append((request, error, None))
        batch = [g for _, g in running.values() if g.finish_reason is None]
        try:
            records = (
                decode_round(batch, self.target, self.drafter, heads=self.trace_heads)
                if batch
                else []
            )
        except ForerunError as error:  # the pass itself failed: nobody can go on
            for g in batch:
                g.fail(error)
            records = []
        by_request = {record.request: record for record in records}
        progress += [(request, g, by_request.get(request.index)) for request, g in running.values()]
        self._retire(running)
        return progress

    def _measured(self) -> Costs:
        if self._costs is None:
            self._costs = Costs.measured(self.target, self.drafter, self._cache)
        return self._costs

    def _admit(
        self, request: Request, running: dict[int, tuple[Request, Generation]]
    ) -> CacheError | None:
        """Open a slot and read the prompt; the error where there is no memory for it."""
        try:
            costs = self._measured() if request.num_draft is None else None
            g = open_generation(self.target, self.drafter, request, costs=costs)
        except CacheError as error:
            self._full = True
            return error
        running[g.slot] = (request, g)
        return None

    def _retire(self, running: dict[int, tuple[Request, Generation]]) -> None:
        for slot, (_, g) in list(running.items()):
            if g.finish_reason is not None:
                del running[slot]
                self._close(g)
