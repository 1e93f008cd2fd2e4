"""forerun itself, with any backend. Modes: plain, or the name of a drafter, or several with "+".

Time in passes is measured around `extend` of target and draft; what is left of a round are laws,
verifying, drafting by look-up, and Python.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

from forerun.api import load
from forerun.drafters import with_head, with_model
from forerun.engine import Engine as Decoder
from forerun.models.base import Model, Step
from forerun.models.heads.load import load_head
from forerun.models.load import load_model

CHUNK = 512  # tokens of a prompt read in one pass


class Watch:
    """When each pass of a model began, and how long it took."""

    def __init__(self, model: Any) -> None:
        self.passes: list[tuple[float, float]] = []
        extend = model.extend

        def watched(steps: Any) -> Any:
            start = perf_counter()
            rows = extend(steps)
            self.passes.append((start, perf_counter() - start))
            return rows

        model.extend = watched

    def since(self, moment: float) -> float:
        return sum(seconds for start, seconds in self.passes if start >= moment)


class Engine:
    def __init__(
        self,
        model: str,
        draft_model: str | None,
        threads: int,
        context: int,
        backend: str,
        cache: str | None = None,
        head: str | None = None,
    ) -> None:
        settings: dict[str, Any] = {"threads": threads, "context": context, "backend": backend}
        self._cache = {} if cache is None else {"cache": Path(cache)}
        settings |= self._cache
        self.target: Model = load_model(model, **settings)
        self.draft: Model | None = load_model(draft_model, **settings) if draft_model else None
        self.head = None if head is None else load_head(head or None, self.target)
        models = (self.target, self.draft, self.head)
        self._watches = [Watch(model) for model in models if model is not None]
        self._engines: dict[tuple[str, Any], Decoder] = {}

    def info(self) -> dict[str, Any]:
        found = {"version": version("forerun"), "model": self.target.name}
        path = getattr(self.target, "path", None)  # the instructions that the backend uses
        return found | ({} if path is None else {"path": str(path)})

    def generate(
        self,
        mode: str,
        num_draft: int | str | None,
        prompt: list[int],
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int | None,
        stop_ids: list[int],
    ) -> dict[str, Any]:
        engine = self._engine(mode, num_draft)
        options: Any = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        if top_p < 1:
            options["top_p"] = top_p
        for watch in self._watches:
            watch.passes.clear()
        arrivals, first = [], None
        start = perf_counter()
        with engine.stream(prompt, **options) as stream:
            for piece in stream:
                now = perf_counter()
                first = now if first is None else first
                arrivals.append([now - start, len(piece.tokens)])
        done = stream.done
        assert done is not None
        assert first is not None
        later = done.trace[1:]
        return {
            "tokens": list(done.tokens),
            "arrivals": arrivals,
            "passes": len(later),
            "drafted": done.stats.drafted,
            "accepted": done.stats.accepted,
            "model_seconds": sum(watch.since(first) for watch in self._watches),
            "expected": _foretold(later, arrivals),
        }

    def passes(self, ids: list[int], rows: int, times: int) -> list[float]:
        """Passes over `rows` new tokens after `ids`, rolled back each time."""
        slot = self.target.open()
        try:
            self._read(slot, ids)
            seconds = []
            for _ in range(times):
                start = perf_counter()
                self.target.extend([Step(slot=slot, tokens=ids[:rows], rows=rows)])
                seconds.append(perf_counter() - start)
                self.target.keep(slot, len(ids))
            return seconds
        finally:
            self.target.close(slot)

    def prompt(self, ids: list[int]) -> float:
        slot = self.target.open()
        try:
            start = perf_counter()
            self._read(slot, ids[:-1])
            self.target.extend([Step(slot=slot, tokens=ids[-1:], rows=1)])
            return perf_counter() - start
        finally:
            self.target.close(slot)

    def _read(self, slot: int, ids: list[int]) -> None:
        for start in range(0, len(ids), CHUNK):
            chunk = ids[start : start + CHUNK]
            self.target.extend([Step(slot=slot, tokens=chunk, rows=0)])
            self.target.keep(slot, start + len(chunk))

    def _engine(self, mode: str, num_draft: int | str | None) -> Decoder:
        key = (mode, num_draft)
        if key not in self._engines:
            settings: dict[str, Any] = dict(self._cache)
            if num_draft is not None:
                settings["num_draft"] = num_draft
            if with_model(mode.split("+")):
                settings["draft_model"] = self.draft
            if with_head(mode.split("+")):
                settings["head"] = self.head
            if mode != "plain":
                settings["drafter"] = mode
            self._engines[key] = load(self.target, **settings)
        return self._engines[key]


def _foretold(rounds: Any, arrivals: list[list[float]]) -> list[list[float]] | None:
    """What the control expected of rounds, and what came of the same rounds; None: no control."""
    expected, came = [0.0, 0.0], [0.0, 0.0]
    before = [moment for moment, _ in arrivals]
    for i, record in enumerate(rounds, start=1):
        foretold = getattr(record, "expected", None)
        if foretold is None or i >= len(before):
            continue
        expected[0] += foretold.tokens
        expected[1] += foretold.seconds
        came[0] += len(record.tokens)
        came[1] += before[i] - before[i - 1]
    return [expected, came] if expected[0] else None
