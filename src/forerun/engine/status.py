"""Counts of an engine, for those who watch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Status:
    """What an engine is at, counted at one moment."""

    running: int  # requests that share rounds
    reading: int  # requests whose prompt is being read
    waiting: int  # requests that have no slot
    cache_bytes: int  # of cached keys and values; 0 where the model does not say
    max_memory: int | None  # bytes the caches may take; None: no limit
    turns: int  # taken so far: rises as long as there is work, or something is stuck
    preempted: int  # times, so far, that a request left its slot to others and was read again
    prefix_bytes: int  # kept of texts that were read
    prefix_hits: int  # requests, so far, that had a beginning which was known
    prefix_hit_tokens: int  # tokens, so far, that were not read again
