"""A batch over Ray Data: blocks of lines to actors with an engine each, records back.

    lines -> blocks -> map_batches(Replica) -> records -> the output, written here alone

A block whose actor dies is done again by another: Ray Data's own retry. A line's seed comes with
its number, so the texts are the same (`batch/desk.py` says why that matters), and a block's records
come once or not at all. What is done is in the output; a driver that died goes on by it.

Seeded texts are the same from replicas of one build and instruction path alone. So each says what
computes it, and a second kind ends the run, as does a replica whose model is another.

What this module does not know: how an engine is made. `make` comes from above, and is pickled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from forerun.batch import Desk, Output, Source, Tally, Terms
from forerun.batch.desk import Asked
from forerun.batch.identity import Identity
from forerun.cluster.connect import connected, last_line
from forerun.engine import Engine
from forerun.errors import ReplicaError

BLOCK = 16  # lines that are sent to an actor, and come back, together
CHUNK = 256 << 20  # bytes of lines that are in Ray's memory at once, at most


@dataclass(frozen=True)
class Replicas:
    """How many engines, and what each takes of its machine."""

    count: int
    cpus: float
    gpus: float


class Replica:
    """An engine in an actor. Blocks come by several threads, so that it never waits for one."""

    def __init__(
        self,
        make: Callable[[], Engine],
        decisive: Callable[[], Mapping[str, Any]],
        terms: Terms,
    ) -> None:
        mine = Identity.of("", decisive()).options
        if mine != terms.run.options:
            raise ReplicaError(
                "a replica's model or forerun is not the driver's: have the same files at the "
                "same paths on every machine"
            )
        self._engine = make()
        self._engine.start()
        self._desk = Desk(self._engine, terms)

    def __call__(self, block: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Records of a block's lines, and their counts."""
        rows = zip(block["number"], block["raw"], block["before"])
        queued = [
            (int(number), self._desk.ask(int(number), bytes(raw), int(before) or None, _drop))
            for number, raw, before in rows
        ]
        found: dict[str, list[Any]] = {
            name: [] for name in ("number", "record", "failed", "tokens", "drafted", "accepted")
        }
        for number, asked in queued:
            record, failed, counts = self._finished(asked)
            values = (number, record, failed, *counts)
            for name, value in zip(found, values):
                found[name].append(value)
        return found | {"maker": [self._desk.maker] * len(queued)}

    def close(self) -> None:
        """End the engine and its thread; an actor's go with its process."""
        self._engine.close()

    def _finished(self, asked: Asked | bytes) -> tuple[bytes, bool, tuple[int, int, int]]:
        if isinstance(asked, bytes):
            return asked, True, (0, 0, 0)
        for stream in asked.streams:
            stream.wait()
        record, failed = self._desk.record(asked)
        stats = [stream.done.stats for stream in asked.streams if stream.done is not None]
        tokens = sum(one.tokens for one in stats)
        drafted, accepted = (sum(getattr(one, n) for one in stats) for n in ("drafted", "accepted"))
        return record, failed, (tokens, drafted, accepted)


def _drop(stream: Any) -> None:
    stream.take()  # pieces: the whole will be there


class RayBatch:
    """Lines of `source` through replicas into `output`. `address` "local" starts a Ray of its own.

    MissingExtraError without ray.
    """

    def __init__(
        self,
        address: str,
        replicas: Replicas,
        source: Source,
        output: Output,
        *,
        watch: Callable[[Tally], None] = lambda tally: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ray = _ray(address)
        self._replicas, self._source, self._output = replicas, source, output
        self._watch, self._stopping = watch, stopping
        self._maker: str | None = None
        self.tally = Tally()

    def run(self, positions: Iterable[int], *parts: Any) -> bool:
        """As `Batch.run`; `parts` are those of `Replica`. What runs when it is stopped is done
        again by the next start. ReplicaError where replicas fail or do not agree."""
        numbers, done = self._source.numbers, self._output.done
        todo = (position for position in positions if not done[numbers[position]])
        for chunk in self._chunks(todo):
            try:
                for block in self._records(chunk, parts):
                    self._write(block)
                    if self._stopping():
                        return False
            except self._ray.exceptions.RayError as error:
                raise ReplicaError(f"Ray: {last_line(error)}") from error
        return True

    def _chunks(self, positions: Iterable[int]) -> Iterator[list[dict[str, Any]]]:
        chunk: list[dict[str, Any]] = []
        size = 0
        for position in positions:
            raw = self._source.read(position)
            before = self._source.used_before(position)
            number = self._source.numbers[position]
            chunk.append({"number": number, "raw": raw, "before": before or 0})
            size += len(raw)
            if size >= CHUNK:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _records(self, chunk: list[dict[str, Any]], parts: Any) -> Iterator[Mapping[str, Any]]:
        data, wanted = self._ray.data, self._replicas
        lines = data.from_items(chunk, override_num_blocks=-(-len(chunk) // BLOCK))
        records = lines.map_batches(
            Replica,
            fn_constructor_args=parts,
            batch_size=None,
            batch_format="numpy",
            compute=data.ActorPoolStrategy(
                size=wanted.count,
                max_tasks_in_flight_per_actor=2,
                max_concurrent_calls_per_actor=2,
                enable_true_multi_threading=True,
            ),
            num_cpus=wanted.cpus,
            num_gpus=wanted.gpus,
        )
        found: Iterator[Mapping[str, Any]] = iter(
            records.iter_batches(batch_size=None, batch_format="numpy", prefetch_batches=0)
        )
        return found

    def _write(self, block: Mapping[str, Any]) -> None:
        rows = [dict(zip(block, values)) for values in zip(*block.values())]
        for row in rows:
            self._maker = self._maker or row["maker"]
            if row["maker"] != self._maker:
                raise ReplicaError(
                    f"replicas differ: {self._maker} and {row['maker']}; seeded texts would depend "
                    "on which one gets a line. Use machines of one kind"
                )
        for row in rows:
            self._output.write(int(row["number"]), bytes(row["record"]))
            self.tally.lines += 1
            for name in ("failed", "tokens", "drafted", "accepted"):
                setattr(self.tally, name, getattr(self.tally, name) + int(row[name]))
        self._watch(self.tally)


def _ray(address: str) -> Any:
    """Ray Data, which says nothing."""
    ray = connected(address, part="data")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray
