"""Prometheus metrics under the prefix `forerun_`, in a registry of the app's own.

Rounds are counted as their pieces are taken, and timed by the engine's clock, so that neither a
busy event loop nor a slow reader counts. Gauges are read from the engine when somebody asks.
Counters of speculation have vLLM's names behind the prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric

from forerun.engine import Completion, Piece
from forerun.trace import Round

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250,
)  # fmt: skip

GAUGES = {  # of a `Status`, by its field: name, help
    "running": ("num_requests_running", "Choices that have a slot"),
    "waiting": ("num_requests_waiting", "Choices that wait for a slot or for memory"),
    "reading": ("num_requests_reading", "Choices whose prompt is being read"),
    "cache_bytes": ("cache_bytes", "Bytes of cached keys and values in slots"),
    "max_memory": ("cache_limit_bytes", "Most bytes of caches; absent: no limit"),
    "preempted": ("preemptions", "Times a request left its slot to others, so far"),
    "prefix_bytes": ("prefix_cache_bytes", "Bytes of pages kept for coming requests"),
    "prefix_hits": ("prefix_cache_hits", "Prompts that began with kept pages, so far"),
    "prefix_hit_tokens": ("prefix_cache_hit_tokens", "Tokens of prompts taken from kept pages"),
}


class Metrics:
    """`status` gives the engine's `Status`: fields that it does not have are not shown."""

    def __init__(self, status: Callable[[], Any]) -> None:
        self.registry = CollectorRegistry()
        self._status = status
        self.registry.register(self)

        def counter(name: str, help: str, labels: Iterable[str] = ()) -> Counter:
            return Counter(f"forerun_{name}", help, tuple(labels), registry=self.registry)

        def histogram(name: str, help: str) -> Histogram:
            return Histogram(f"forerun_{name}", help, registry=self.registry, buckets=_SECONDS)

        self._drafts = counter("spec_decode_num_drafts", "Rounds that drafted")
        self._drafted = counter("spec_decode_num_draft_tokens", "Drafted tokens")
        self._accepted = counter("spec_decode_num_accepted_tokens", "Accepted drafted tokens")
        self._positions = counter(
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted drafted tokens by their place in the draft, from 0",
            ["position"],
        )
        self._prompt = counter("prompt_tokens", "Tokens of prompts")
        self._generated = counter("generation_tokens", "Tokens written")
        self._ended = counter("requests_finished", "Choices by how they ended", ["finish_reason"])
        self._answers = counter("http_requests", "Answers by status", ["path", "status"])
        self._first = histogram("time_to_first_token_seconds", "From arrival to the first token")
        self._between = histogram(
            "inter_token_latency_seconds", "Between tokens; those of a round share its time evenly"
        )
        self._queued = histogram(
            "queue_time_seconds", "From the end of the queue to a slot, of those that had one"
        )
        self._whole = histogram(
            "e2e_request_latency_seconds", "From arrival to the end of what was written whole"
        )

    def collect(self) -> Iterable[Metric]:
        """The gauges, for the registry."""
        status = self._status()
        for field, (name, help) in GAUGES.items():
            value = getattr(status, field, None)
            if value is not None:
                yield GaugeMetricFamily(f"forerun_{name}", help, value=float(value))

    def text(self) -> bytes:
        """What `/metrics` says."""
        return generate_latest(self.registry)

    def answered(self, path: str, status: int) -> None:
        self._answers.labels(path, str(status)).inc()

    def watch(self, arrived: float) -> Watch:
        """For a choice whose request was there at this time of the engine's clock."""
        return Watch(self, arrived)

    def _round(self, record: Round) -> None:
        self._generated.inc(len(record.tokens))
        if not record.drafted:
            return
        accepted = record.kinds.count("accepted")
        self._drafts.inc()
        self._drafted.inc(len(record.drafted))
        self._accepted.inc(accepted)
        for position in range(accepted):
            self._positions.labels(str(position)).inc()


class Watch:
    """Times and counts of one choice, whether its client stays or leaves."""

    def __init__(self, metrics: Metrics, arrived: float) -> None:
        self._metrics, self._arrived = metrics, arrived
        self._last: float | None = None
        self.ended = False

    def piece(self, piece: Piece) -> None:
        metrics, count = self._metrics, len(piece.tokens)
        metrics._round(piece.round)
        if self._last is None:
            metrics._first.observe(piece.at - self._arrived)
        else:
            for _ in range(count):
                metrics._between.observe((piece.at - self._last) / count)
        self._last = piece.at

    def leave(self) -> None:
        """Nobody waits for it any more, nor is told how it ends."""
        if not self.ended:
            self.ended = True
            self._metrics._ended.labels("cancelled").inc()

    def end(self, done: Completion) -> None:
        self.ended = True
        metrics = self._metrics
        metrics._ended.labels(done.finish_reason).inc()
        if done.admitted is not None:
            metrics._queued.observe(done.admitted - done.submitted)
            if done.choice == 0:  # one reading serves all choices of a prompt
                metrics._prompt.inc(len(done.prompt))
        if done.finish_reason in ("stop", "length"):
            metrics._whole.observe(done.ended - self._arrived)
