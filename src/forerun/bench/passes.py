"""What a pass over 1 … 16 new rows costs each engine, behind the same text, in turn.

For every repeat and number of rows each engine in turn (another one first each time) reads the rows
a few times; the first time does not count, for threads and caches have just been another engine's.
All logits of the rows are wanted, as verifying needs them. The read bandwidth of the memory is
measured in between: file bytes ÷ bandwidth is the least that a pass can take.

This module does not know how engines are started.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forerun.bench.bandwidth import read_bandwidth
from forerun.bench.figures import Figure
from forerun.bench.process import Process
from forerun.errors import ForerunError, PeerError
from forerun.models.gguf import read_gguf

ROWS = (1, 2, 4, 8, 12, 16)
TIMES = 4  # passes in a row; the first does not count
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Seconds by engine, and the machine's bandwidth in the same run."""

    context: int  # tokens before the rows
    rows: tuple[int, ...]
    seconds: Mapping[str, Mapping[int, Sequence[float]]]  # engine -> rows -> each pass
    prompt_tokens: int
    prompt_seconds: Mapping[str, Sequence[float]]  # engine -> each reading
    bandwidth: Sequence[float]  # bytes per second, each measurement
    weight_bytes: int | None  # that a pass reads; None: no GGUF file
    failures: Mapping[str, str]

    @property
    def bound(self) -> float | None:
        """Least seconds of a pass: weights ÷ the best bandwidth seen."""
        if self.weight_bytes is None or not self.bandwidth:
            return None
        return self.weight_bytes / max(self.bandwidth)

    def figure(self, engine: str, rows: int) -> Figure | None:
        return Figure.of(self.seconds.get(engine, {}).get(rows, ()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "context": self.context,
            "seconds": {
                engine: {str(rows): statistics.median(s) for rows, s in table.items() if s}
                for engine, table in self.seconds.items()
            },
            "all_seconds": {
                engine: {str(rows): list(s) for rows, s in table.items()}
                for engine, table in self.seconds.items()
            },
            "prompt_tokens": self.prompt_tokens,
            "prompt_seconds": {name: list(s) for name, s in self.prompt_seconds.items()},
            "bandwidth": list(self.bandwidth),
            "weight_bytes": self.weight_bytes,
            "bound_seconds": self.bound,
            "failures": dict(self.failures),
        }


def measure(
    engines: Mapping[str, Process],
    *,
    ids: Sequence[int],
    repeats: int,
    threads: int,
    weight_bytes: int | None,
    into: Callable[[Passes], None],
    rows: Sequence[int] = ROWS,
    bandwidth: Callable[[int], list[float]] | None = None,
) -> Passes:
    """Measure; `into` gets what is there after each repeat. Engines that fail are left out."""
    bandwidth = bandwidth or (lambda threads: read_bandwidth(threads, repeats=2))
    seconds: dict[str, dict[int, list[float]]] = {n: {r: [] for r in rows} for n in engines}
    prompts: dict[str, list[float]] = {name: [] for name in engines}
    rates: list[float] = []
    failures: dict[str, str] = {}

    def so_far() -> Passes:
        return Passes(
            context=len(ids),
            rows=tuple(rows),
            seconds={n: table for n, table in seconds.items() if any(table.values())},
            prompt_tokens=len(ids),
            prompt_seconds={n: s for n, s in prompts.items() if s},
            bandwidth=rates,
            weight_bytes=weight_bytes,
            failures=failures,
        )

    turn = 0
    for _ in range(repeats):
        rates += bandwidth(threads)
        for count in (0, *rows):  # 0: the prompt
            for name in rotated(list(engines), turn):
                if name in failures:
                    continue
                try:
                    if count == 0:
                        took = engines[name].call("prompt", ids=list(ids))
                        prompts[name] += [] if took is None else [took]
                    else:
                        took = engines[name].call("passes", ids=list(ids), rows=count, times=TIMES)
                        seconds[name][count] += (took or [])[1:]
                except PeerError as error:
                    failures[name] = str(error)
            turn += 1
        into(so_far())
    return so_far()


def rotated(names: list[str], turn: int) -> list[str]:
    """The names, another one first each turn."""
    shift = turn % len(names) if names else 0
    return names[shift:] + names[:shift]


def weight_bytes(path: Path | str) -> int | None:
    """Bytes of a GGUF file that every pass reads: all tensors, but for an embedding table that is
    not the head too. None for what is no GGUF file."""
    try:
        tensors = read_gguf(path).tensors
    except ForerunError:
        return None
    return sum(t.size for t in tensors.values() if t.name != _EMBEDDING or _HEAD not in tensors)
