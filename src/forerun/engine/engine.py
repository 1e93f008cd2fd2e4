"""The engine: requests in, tokens out, round by round.

A minimal one: requests of a call wait in order for one of `max_batch` slots, and those that run
share every round. Calls from several threads take turns round by round.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Unpack

from forerun.decode import Generation, decode_round
from forerun.drafters import drafter as find_drafter
from forerun.drafters.base import Drafter
from forerun.engine.request import (
    AUTO,
    Completion,
    Piece,
    Prompt,
    Request,
    check_verifier,
    checked_num_draft,
    close_generation,
    completion,
    make_request,
    open_generation,
)
from forerun.engine.stops import TextFollower
from forerun.errors import CacheError, CapabilityError, ForerunError, OptionError
from forerun.models.base import Model
from forerun.sampling import SamplingOptions
from forerun.trace import Kind, Round

Progress = tuple[Request, Generation, Round | None]
"""A request after a round of its own; no record where the round failed."""


class EngineOptions(SamplingOptions, total=False):
    """Keywords of one request: sampling, and how it is decoded."""

    verifier: str
    num_draft: int


class Engine:
    """Decodes with `target`, helped by `drafter`; the law of the output is the target's alone.

    target      a Model
    drafter     a Drafter, the name of one that needs no argument ("ngram", "suffix"), or None
    verifier    "auto", or a name in `verifiers.VERIFIERS`
    num_draft   γ: tokens drafted per round; 0 is plain decoding
    max_batch   most requests that share a round
    trace_heads record in each trace the likeliest tokens of the law behind the round's last draw

    Raises OptionError, UnknownNameError, VocabularyError or CapabilityError before the first token.
    An engine is a context manager and may be shared by threads.
    """

    def __init__(
        self,
        target: Model,
        drafter: Drafter | str | None = None,
        *,
        verifier: str = AUTO,
        num_draft: int = 4,
        max_batch: int = 8,
        trace_heads: bool = False,
    ) -> None:
        self.target = target
        self.drafter = find_drafter(drafter)
        self.verifier = verifier
        self.num_draft = checked_num_draft(num_draft)
        if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
            raise OptionError(f"max_batch must be a whole number of at least 1, not {max_batch!r}")
        self.max_batch = max_batch
        self.trace_heads = trace_heads
        self._lock = threading.Lock()
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
        each = (
            [params or {}] * len(prompts)
            if params is None or isinstance(params, Mapping)
            else params
        )
        if len(each) != len(prompts):
            raise OptionError(f"{len(prompts)} prompts but {len(each)} params: give one for each")
        requests = [self._request(i, *pair) for i, pair in enumerate(zip(prompts, each))]
        traces: list[list[Round]] = [[] for _ in requests]
        done: dict[int, Completion] = {}
        with closing(self._run(requests)) as progress:
            for request, g, record in progress:
                if record is not None:
                    traces[request.index].append(record)
                if g.finish_reason is not None:
                    done[request.index] = completion(request, g, traces[request.index])
        return [done[i] for i in range(len(requests))]

    def stream(self, prompt: Prompt, **options: Unpack[EngineOptions]) -> Stream:
        """Complete one prompt, a piece per round. The request is checked before this returns."""
        request = self._request(0, prompt, options)
        return Stream(request, self._run([request]))

    def close(self) -> None:
        """Refuse further calls. Models are the caller's and stay as they are."""
        self._closed = True

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ the loop

    def _request(self, index: int, prompt: Prompt, options: Mapping[str, Any]) -> Request:
        if self._closed:
            raise OptionError("this engine is closed")
        return make_request(
            self.target,
            self.drafter,
            prompt,
            options,
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
                with self._lock:
                    progress = self._round(waiting, running)
                yield from progress
        finally:
            with self._lock:
                for _, g in running.values():
                    close_generation(g, self.target, self.drafter)

    def _round(
        self, waiting: deque[Request], running: dict[int, tuple[Request, Generation]]
    ) -> list[Progress]:
        self._retire(running)  # those cancelled between rounds
        while waiting and len(running) < self.max_batch:
            if not self._admit(waiting[0], running):
                break
            waiting.popleft()
        batch = [g for _, g in running.values()]
        if not batch:
            return []
        try:
            records = decode_round(batch, self.target, self.drafter, heads=self.trace_heads)
        except ForerunError as error:  # the pass itself failed: nobody can go on
            for g in batch:
                g.fail(error)
            records = []
        by_request = {record.request: record for record in records}
        progress = [(request, g, by_request.get(request.index)) for request, g in running.values()]
        self._retire(running)
        return progress

    def _admit(self, request: Request, running: dict[int, tuple[Request, Generation]]) -> bool:
        """Open a slot and read the prompt; False where memory is short until others have ended."""
        try:
            g = open_generation(self.target, self.drafter, request)
        except CacheError:
            if running:
                return False
            raise
        running[g.slot] = (request, g)
        return True

    def _retire(self, running: dict[int, tuple[Request, Generation]]) -> None:
        for slot, (_, g) in list(running.items()):
            if g.finish_reason is not None:
                close_generation(g, self.target, self.drafter)
                del running[slot]


class Stream(Iterator[Piece]):
    """Pieces of one completion, one for each round; `done` holds the whole once it has ended.

    `cancel()` ends it after the current round; leaving a `with` block or dropping it does too.
    """

    def __init__(self, request: Request, progress: Generator[Progress, None, None]) -> None:
        self._request = request
        self._progress = progress
        self._trace: list[Round] = []
        self._kinds: list[Kind] = []  # by token
        self._shown = 0  # characters handed out
        self._token = 0  # the token whose text comes next
        self._generation: Generation | None = None
        self.done: Completion | None = None

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Piece:
        if self.done is not None:
            raise StopIteration
        for _, g, record in self._progress:
            self._generation = g
            if record is not None:
                self._trace.append(record)
                self._kinds += record.kinds
            if g.finish_reason is not None:
                self._end(g)
            if g.error is not None:
                raise g.error
            if record is not None:
                return self._piece(g, record)
        raise StopIteration

    def cancel(self) -> Completion | None:
        """End it now; what was delivered so far is in `done` (None if nothing had begun)."""
        if self.done is None and (g := self._generation) is not None:
            g.finish_reason = "cancelled"
            self._end(g)
        self._progress.close()
        return self.done

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.cancel()

    def _end(self, g: Generation) -> None:
        self.done = completion(self._request, g, self._trace)

    def _piece(self, g: Generation, record: Round) -> Piece:
        parts = self._new_parts(g)
        return Piece(
            text="".join(text for text, _ in parts),
            tokens=record.tokens,
            kinds=record.kinds,
            parts=parts,
            round=record,
        )

    def _new_parts(self, g: Generation) -> tuple[tuple[str, Kind], ...]:
        """Text that became showable, split by the token that completed it."""
        if not isinstance(g.follower, TextFollower):
            return ()
        follower = g.follower
        upto = len(follower.text) if g.finish_reason is not None else follower.showable()
        parts: list[tuple[str, Kind]] = []
        while self._shown < upto:
            end = min(follower.ends[self._token], upto)
            if self._shown < end:
                parts.append((follower.text[self._shown : end], self._kinds[self._token]))
                self._shown = end
            if end < upto:
                self._token += 1
        return tuple(parts)
