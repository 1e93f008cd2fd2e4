"""Threads that each compute on their own.

    with Workers(2) as workers:
        for found in workers.map(work, parts): …

Inside of each, torch takes one thread: two that meet once a part lose less to each other, and far
less to other processes, than two that meet at every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch

A = TypeVar("A")
B = TypeVar("B")


class Workers:
    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1))

    def map(self, work: Callable[[A], B], parts: Iterable[A]) -> list[B]:
        """What `work` makes of each part, in their order."""
        return list(self._pool.map(work, parts))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
