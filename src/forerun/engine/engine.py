"""The engine: requests in, tokens out, round by round.

Requests of all calls and threads share rounds: `scheduler.py` says who runs, `driver.py` who takes
the turns. What this module does not know: how either is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

from forerun.drafters import drafter as find_drafter
from forerun.drafters.base import Drafter, parts
from forerun.drafters.per_request import PerRequestDrafter
from forerun.engine.choices import AUTO, check_verifier, checked_num_draft
from forerun.engine.completion import Completion
from forerun.engine.driver import Driver
from forerun.engine.intake import CLOSED, Intake, Listener
from forerun.engine.options import EngineOptions
from forerun.engine.prompt import Prompt
from forerun.engine.request import Request, make_request
from forerun.engine.scheduler import Scheduler
from forerun.engine.shared_prompt import SharedPrompt
from forerun.engine.status import Status
from forerun.engine.stream import Stream
from forerun.errors import CapabilityError, EngineClosedError, OptionError
from forerun.models.base import Model
from forerun.models.prefix_cache import PrefixCache
from forerun.pace import Costs, Pace, checked_costs
from forerun.sampling import is_whole


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
    max_waiting most requests that wait for a place in one; None: any number. Of a call's requests
                all are taken, or none: more than max_batch + max_waiting never are
    prefix_memory   bytes of cached keys and values kept of texts that were read, so that what
                another request has in common with them at its beginning need not be read again
    share_prefixes  whether that goes for requests of different tenants too: what is known is
                answered sooner, which tells one tenant what another asked
    trace_heads record in each trace the likeliest tokens of the laws: p and q of each drafted
                token, and the one behind the round's last draw
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
        max_waiting: int | None = None,
        prefix_memory: int = 0,
        share_prefixes: bool = False,
    ) -> None:
        if not isinstance(target, Model):
            raise OptionError(
                f"target takes a Model, not {target!r}; names and paths go to forerun.load"
            )
        self.target = target
        self.drafter = find_drafter(drafter)
        self._drafters = PerRequestDrafter(self.drafter)
        self.verifier = verifier
        checked_num_draft(num_draft)
        self.num_draft = num_draft
        if isinstance(max_batch, bool) or not isinstance(max_batch, int) or max_batch < 1:
            raise OptionError(f"max_batch must be a whole number of at least 1, not {max_batch!r}")
        self.max_batch = max_batch
        self.trace_heads = trace_heads
        self._costs = None if costs is None else checked_costs(costs)
        self._pace: Pace | None = None  # once a request's γ is chosen by it
        self._cache = cache
        self.max_waiting = max_waiting
        self.share_prefixes = share_prefixes
        if not is_whole(prefix_memory) or prefix_memory < 0:
            raise OptionError(
                f"prefix_memory must be a whole number of bytes, 0 or more, not {prefix_memory!r}"
            )
        self._prefixes = PrefixCache(target, prefix_memory) if prefix_memory else None
        self._scheduler = Scheduler(
            target,
            self._drafters,
            max_batch=max_batch,
            pace=self._paced,
            prefixes=self._prefixes,
        )
        self._driver = Driver(self._scheduler)
        self._intake = Intake(
            self._scheduler, self._driver, max_batch=max_batch, max_waiting=max_waiting
        )
        self._check()

    def _check(self) -> None:
        check_verifier(self.verifier, parts(self.drafter))
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
        self._intake.check(len(prompts))
        requests = [self._request(i, *pair) for i, pair in enumerate(zip(prompts, each))]
        return self._finished(self._intake.submit([(request, None) for request in requests]))

    def generate_choices(
        self, prompt: Prompt, n: int, **options: Unpack[EngineOptions]
    ) -> list[Completion]:
        """Complete one prompt `n` times, from one reading of it: completions 0 to n − 1 of the
        seed, of which the first is what `generate` gives. A run-time error is in its `done.error`.
        """
        return self._finished(self.submit_choices(prompt, n, **options))

    def stream(self, prompt: Prompt, **options: Unpack[EngineOptions]) -> Stream:
        """Complete one prompt, a piece per round. The request is checked before this returns."""
        return self.submit(prompt, **options)

    def submit(
        self,
        prompt: Prompt,
        *,
        listener: Listener | None = None,
        tenant: str = "",
        deadline: float | None = None,
        **options: Unpack[EngineOptions],
    ) -> Stream:
        """Check a request and queue it; nothing is waited for.

        listener  called after each round that brought something and at the end, by whoever takes
                  the turns: it must return at once. The engine then keeps the stream until its end,
                  so that only `cancel` ends it early; without one, dropping the stream does
        tenant    whose request it is: prompts and texts kept from one tenant's serve no other's
        deadline  seconds from now, after which it ends as "cancelled", with what it has

        Raises what is wrong with the request; EngineClosedError, OverloadedError.
        """
        return self.submit_batch(
            [prompt], listener=listener, tenant=tenant, deadline=deadline, **options
        )[0]

    def submit_choices(
        self,
        prompt: Prompt,
        n: int,
        *,
        listener: Listener | None = None,
        tenant: str = "",
        deadline: float | None = None,
        **options: Unpack[EngineOptions],
    ) -> list[Stream]:
        """As `submit`, for completions 0 to n − 1 of one seed; a fresh one where none is given."""
        return self.submit_batch(
            [prompt], n, listener=listener, tenant=tenant, deadline=deadline, **options
        )

    def submit_batch(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        listener: Listener | None = None,
        tenant: str = "",
        deadline: float | None = None,
        **options: Unpack[EngineOptions],
    ) -> list[Stream]:
        """As `submit_choices`, for each of several prompts, in their order: all are queued, or
        none. Without a seed each prompt gets one of its own."""
        if isinstance(prompts, (str, bytes)):
            raise OptionError("submit_batch takes a list of prompts; for one prompt use submit")
        if not is_whole(n) or n < 1:
            raise OptionError(f"n must be a whole number of at least 1, not {n!r}")
        if n > 1 and options.get("resume") is not None:
            raise OptionError(f"resume goes on with one choice: n must be 1, not {n}")
        end = self._intake.end(deadline)
        self._intake.check(len(prompts) * n)
        queued: list[tuple[Request, SharedPrompt | None]] = []
        for prompt in prompts:
            first = self._request(len(queued), prompt, options, tenant=tenant)
            shared = SharedPrompt(n) if n > 1 else None
            queued += [
                (replace(first, index=first.index + i, choice=first.choice + i), shared)
                for i in range(n)
            ]
        return self._intake.submit(queued, listener, end)

    def costs(self) -> Costs:
        """What passes cost; measured now if they were not yet. No round runs meanwhile."""
        with self._driver.alone():
            return self._measured()

    @property
    def known_costs(self) -> Costs | None:
        """What passes cost, if that is known already; None where nobody measured it yet."""
        return self._costs

    # ------------------------------------------------------------------ who takes the turns

    def start(self) -> None:
        """From now on a thread of the engine's own takes the turns, as requests arrive."""
        if self._intake.closed:
            raise EngineClosedError(CLOSED)
        self._driver.start()

    def turn(self) -> bool:
        """Take one turn in this thread; False where there was nothing to do."""
        return self._driver.turn()

    def drain(self, timeout: float | None = None) -> bool:
        """Take no more requests, and wait for those that are there, `timeout` seconds at most.
        Whether all have ended."""
        self._intake.drain()
        return self._driver.until(lambda: self._scheduler.idle, timeout)

    def close(self) -> None:
        """Refuse further calls, and cancel what is there. Models are the caller's and stay."""
        self._intake.close()
        self._driver.close()

    def status(self) -> Status:
        """Counts of this moment."""
        scheduler, known = self._scheduler, self._prefixes
        return Status(
            running=scheduler.decoding,
            reading=scheduler.reading,
            waiting=scheduler.waiting,
            cache_bytes=scheduler.cache_bytes,
            max_memory=getattr(self.target, "max_memory", None),
            turns=scheduler.turns,
            preempted=scheduler.preempted,
            prefix_bytes=0 if known is None else known.bytes,
            prefix_hits=0 if known is None else known.hits,
            prefix_hit_tokens=0 if known is None else known.hit_tokens,
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ parts

    def _request(self, index: int, prompt: Prompt, options: Any, *, tenant: str = "") -> Request:
        if not isinstance(options, Mapping | None):
            raise OptionError(f"params takes a dict of keywords for each prompt, not {options!r}")
        request = make_request(
            self.target,
            self._drafters,
            prompt,
            options or {},
            index=index,
            tenant="" if self.share_prefixes else tenant,
            verifier=self.verifier,
            num_draft=self.num_draft,
            trace_heads=self.trace_heads,
        )
        if (refusal := self._scheduler.refusal(request)) is not None:
            raise refusal
        return request

    def _finished(self, streams: Sequence[Stream]) -> list[Completion]:
        """What came of them, once all have ended; an exception leaves none of them behind."""
        try:
            for stream in streams:
                stream.wait()
        finally:
            for stream in streams:
                stream.cancel()
        return [stream.done for stream in streams if stream.done is not None]

    def _measured(self) -> Costs:
        if self._costs is None:
            self._costs = Costs.measured(self.target, self.drafter, self._cache)
        return self._costs

    def _paced(self) -> Pace:
        if self._pace is None:
            self._pace = Pace(self._measured())
        return self._pace
