"""The run: lines in, records out, some at a time.

    read a line -> ask the engine (desk.py) -> … rounds, in the engine's thread … -> record -> write

There are as many lines in the engine as it has slots, and as many behind them, so that it never
waits for a line; all others are on disk. Records are written as they are ready, in no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from forerun.batch.desk import Asked, Desk
from forerun.batch.output import Output
from forerun.batch.source import Source
from forerun.engine import Engine, Stream

BLINK = 0.2  # seconds between looks at who wants it to stop


@dataclass(kw_only=True)
class Tally:
    """Of this start. Tokens count as they come, lines once they have their record."""

    lines: int = 0
    failed: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0


class Batch:
    """Lines of `source` through `engine` into `output`.

    watch     called some times a second with the tally
    stopping  whether no further line is to be begun; those whose answer has begun are finished
    """

    def __init__(
        self,
        engine: Engine,
        desk: Desk,
        source: Source,
        output: Output,
        *,
        watch: Callable[[Tally], None] = lambda tally: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine, self._desk, self._source, self._output = engine, desk, source, output
        self._watch, self._stopping = watch, stopping
        self.tally = Tally()
        self._asked: dict[Stream, Asked] = {}
        self._begun: set[Stream] = set()  # that have brought something
        self._ended: SimpleQueue[Stream] = SimpleQueue()

    def run(self, positions: Iterable[int]) -> bool:
        """Do those that have no record yet; False where `stopping` left some.

        RoundError where a round broke off: lines that were on their way have no record.
        """
        numbers, done = self._source.numbers, self._output.done
        todo = (position for position in positions if not done[numbers[position]])
        position = next(todo, None)
        self._engine.start()
        while not self._stopping():
            if position is not None and len(self._asked) < 2 * self._engine.max_batch:
                self._begin(position)
                position = next(todo, None)
                self._take(0.0)
            elif self._asked:
                self._take(BLINK)
            else:
                break
        whole = self._drain()
        self._watch(self.tally)
        return whole and position is None

    def _begin(self, position: int) -> None:
        number, raw = self._source.numbers[position], self._source.read(position)
        before = self._source.used_before(position)
        asked = self._desk.ask(number, raw, before, self._listen)
        if isinstance(asked, Asked):
            self._asked |= dict.fromkeys(asked.streams, asked)
        else:
            self._write(number, asked, failed=True)

    def _listen(self, stream: Stream) -> None:
        """In the engine's thread, after each round that brought something and at the end."""
        done = stream.done  # before its pieces: none is behind it
        self._begun.add(stream)
        for piece in stream.take():
            self.tally.tokens += len(piece.tokens)
            self.tally.drafted += len(piece.round.drafted)
            self.tally.accepted += piece.kinds.count("accepted")
        if done is not None:
            self._ended.put(stream)

    def _take(self, seconds: float) -> None:
        """The next that has ended, if it comes in so many seconds; a look at the clock."""
        self._watch(self.tally)
        self._output.sync()
        try:
            stream = self._ended.get(timeout=seconds) if seconds else self._ended.get_nowait()
        except Empty:
            return
        asked = self._asked.get(stream)
        if asked is None or not asked.done:  # of several choices, the last one counts
            return
        for one in asked.streams:
            del self._asked[one]
            self._begun.discard(one)
        if not asked.cancelled:
            record, failed = self._desk.record(asked)
            self._write(asked.number, record, failed=failed)

    def _drain(self) -> bool:
        """Give up what has brought nothing yet and wait for the rest; whether nothing was."""
        unbegun = [s for s in self._asked if s not in self._begun]
        for stream in unbegun:
            stream.cancel(wait=False)
        while self._asked:
            self._take(BLINK)
        return not unbegun

    def _write(self, number: int, record: bytes, *, failed: bool) -> None:
        self._output.write(number, record)
        self.tally.lines += 1
        self.tally.failed += failed
