"""Streams left early, threads, and calls within calls: nothing hangs, nothing stays open."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from forerun import Engine
from forerun.drafters import ModelDrafter, NgramDrafter
from forerun.errors import CacheError, OptionError
from forerun.models.tabular import TabularModel
from forerun.verifiers import VERIFIERS

from .fakes import (
    NONE_OPEN,
    OPTIONS,
    PROMPT,
    V,
    consistent,
    delivered,
    draft,
    engine,
    letters,
    open_slots,
    solo,
    target,
    within,
    writes,
)


@pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
def test_a_stream_to_its_end(verifier):
    e = engine(verifier=verifier)
    stream = e.stream(PROMPT, **OPTIONS)
    assert stream.done is None
    pieces = list(stream)
    assert stream.done.tokens == delivered(pieces) == e.generate(PROMPT, **OPTIONS).tokens
    assert [piece.round for piece in pieces] == list(stream.done.trace)
    assert stream.done.finish_reason == "length"
    assert stream.cancel() is stream.done  # too late to change anything
    assert stream.done.finish_reason == "length"
    assert next(stream, None) is None
    consistent(stream.done)
    assert open_slots(e) == NONE_OPEN


def test_cancel():
    e = engine()
    stream = e.stream(PROMPT, **OPTIONS)
    pieces = [next(stream), next(stream)]
    done = stream.cancel()
    assert done is stream.done
    assert (done.finish_reason, done.error) == ("cancelled", None)
    assert done.tokens == delivered(pieces)
    consistent(done)
    assert open_slots(e) == NONE_OPEN
    assert next(stream, None) is None
    assert stream.cancel() is done
    assert e.generate(PROMPT, **OPTIONS).tokens[: len(done.tokens)] == done.tokens


def test_cancel_before_the_first_piece():
    e = engine()
    stream = e.stream(PROMPT, **OPTIONS)
    assert open_slots(e) == NONE_OPEN  # nothing is opened before it is asked for
    done = stream.cancel()
    assert (done.finish_reason, done.tokens, done.error) == ("cancelled", (), None)
    assert next(stream, None) is None
    assert open_slots(e) == NONE_OPEN


def test_leaving_the_with_block():
    e = engine()
    with e.stream(PROMPT, **OPTIONS) as stream:
        piece = next(stream)
        assert open_slots(e) == (1, 1)
    assert stream.done.finish_reason == "cancelled"
    assert stream.done.tokens == piece.tokens
    assert open_slots(e) == NONE_OPEN


def test_an_exception_in_the_consumer():
    e = engine()
    stream = e.stream(PROMPT, **OPTIONS)

    def consume():
        with stream:
            for _ in stream:
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        consume()
    assert stream.done.finish_reason == "cancelled"
    assert open_slots(e) == NONE_OPEN


def test_dropping_a_half_read_stream():
    e = engine()
    stream = e.stream(PROMPT, **OPTIONS)
    next(stream)
    assert open_slots(e) == (1, 1)
    del stream
    gc.collect()
    assert open_slots(e) == NONE_OPEN
    assert e.generate(PROMPT, **OPTIONS).tokens == solo()


def test_a_dropped_stream_that_is_collected_during_a_round():
    """The collector may run anywhere, even in the middle of this thread's own round."""
    collecting = []

    def next_law(prefix):
        if collecting:
            collecting.clear()
            gc.collect()
        return [1 / V] * V

    e = Engine(TabularModel(next_law, V), NgramDrafter())
    gc.collect()
    stream = e.stream(PROMPT, **OPTIONS)
    next(stream)
    stream.itself = stream  # only the collector can free it
    del stream
    collecting.append(True)
    assert len(within(5, lambda: e.generate(PROMPT, **OPTIONS)).tokens) == 30
    assert open_slots(e) == NONE_OPEN


def test_cancel_from_another_thread():
    """It takes effect after the current round, as its docstring says."""
    inside, go_on = threading.Event(), threading.Event()

    def next_law(prefix):
        if len(prefix) > 6:
            inside.set()
            go_on.wait(5)
        return [1 / V] * V

    e = Engine(TabularModel(next_law, V))
    stream = e.stream(PROMPT, **OPTIONS)
    pieces = []
    reader = threading.Thread(target=lambda: pieces.extend(stream), daemon=True)
    reader.start()
    assert inside.wait(5)
    errors = []
    canceller = threading.Thread(target=lambda: recording(errors, stream.cancel), daemon=True)
    canceller.start()
    canceller.join(0.1)
    go_on.set()
    for thread in (canceller, reader):
        thread.join(5)
        assert not thread.is_alive()
    assert errors == []
    assert stream.done.finish_reason == "cancelled"
    assert 0 < len(stream.done.tokens) < 30
    assert open_slots(e) == NONE_OPEN


def recording(errors, action):
    try:
        action()
    except Exception as error:
        errors.append(error)


def test_cancel_in_the_middle_of_a_round():
    """As a signal's handler does it, or a processor that has seen enough."""
    streams = []

    def enough(ids, logits):
        if len(ids) == 7:
            streams[0].cancel()
        return logits

    e = Engine(target())
    streams.append(e.stream(PROMPT, **OPTIONS, processors=[enough]))
    pieces = list(streams[0])
    done = streams[0].done
    assert done.finish_reason == "cancelled"
    assert delivered(pieces) == done.tokens
    assert len(done.tokens) in (4, 5)
    consistent(done)
    assert open_slots(e) == NONE_OPEN


def test_calls_within_a_stream():
    """An open stream holds its slot, not the engine."""

    def nested():
        e = engine()
        pieces, inner = [], []
        for piece in e.stream(PROMPT, **OPTIONS):
            pieces.append(piece)
            inner.append(e.generate([4], **OPTIONS).tokens)
            with e.stream([3, 3], **OPTIONS) as other:
                next(other)
        assert delivered(pieces) == solo()
        assert set(inner) == {solo([4])}
        assert open_slots(e) == NONE_OPEN

    within(20, nested)


def test_streams_side_by_side():
    e = engine()
    prompts = [PROMPT, [4], [3, 3]]
    streams = [e.stream(prompt, **OPTIONS) for prompt in prompts]
    pieces = [[], [], []]
    while any(stream.done is None for stream in streams):
        for stream, found in zip(streams, pieces):
            found += [piece for piece in [next(stream, None)] if piece is not None]
    assert [delivered(found) for found in pieces] == [solo(prompt) for prompt in prompts]
    assert open_slots(e) == NONE_OPEN


def test_threads_share_an_engine():
    busy, overlaps = [], []

    class Watched(TabularModel):
        def extend(self, steps):
            overlaps.extend(busy)
            busy.append(1)
            time.sleep(0)  # let another thread in
            rows = super().extend(steps)
            busy.pop()
            return rows

    e = Engine(Watched(target()._next_law, V), ModelDrafter(draft()), max_batch=3)
    prompts = [[i % V, i // V] for i in range(10)]
    expected = [solo(prompt, seed=i) for i, prompt in enumerate(prompts)]
    wrong, barrier = [], threading.Barrier(4)

    def work(me):
        barrier.wait()
        for turn in range(3):
            for i in range(me, 10, 2):
                options = {**OPTIONS, "seed": i}
                if (turn + me) % 3 == 0:
                    found = delivered(e.stream(prompts[i], **options))
                elif (turn + me) % 3 == 1:
                    found = e.generate(prompts[i], **options).tokens
                else:
                    found = e.generate_batch([prompts[i], [0]], options)[0].tokens
                if found != expected[i]:
                    wrong.append((me, i))

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == overlaps == []
    assert open_slots(e) == NONE_OPEN


def test_threads_wait_for_memory_that_others_hold():
    """Calls queue: that another call has the last slot is no error of this one."""

    class Cramped(TabularModel):
        def open(self):
            if self._cached:
                raise CacheError("one slot is open; there is memory for no more")
            return super().open()

    e = Engine(Cramped(target()._next_law, V))
    errors, barrier = [], threading.Barrier(3)

    def work():
        barrier.wait()
        for _ in range(20):
            try:
                assert e.generate(PROMPT, **OPTIONS).tokens == solo()
            except CacheError as error:
                errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []


def test_a_closed_engine_says_so():
    with engine() as e:
        assert e.generate(PROMPT, **OPTIONS).tokens == solo()
        stream = e.stream(PROMPT, **OPTIONS)
        next(stream)
    for call in (e.generate, e.stream):
        with pytest.raises(OptionError, match="this engine is closed"):
            call(PROMPT)
    with pytest.raises(OptionError, match="this engine is closed"):
        e.generate_batch([PROMPT])
    stream.cancel()
    assert open_slots(e) == NONE_OPEN


def test_an_interrupt_in_the_middle_of_a_round():
    """Ctrl-C, raised inside the model: it comes through, and leaves no slot open."""

    def next_law(prefix):
        if len(prefix) == 9:
            raise KeyboardInterrupt
        return [1 / V] * V

    e = Engine(TabularModel(next_law, V), NgramDrafter(), num_draft=1)
    with pytest.raises(KeyboardInterrupt):
        e.generate_batch([PROMPT, [1]], OPTIONS)
    assert open_slots(e) == NONE_OPEN
    assert len(e.generate([1], max_tokens=4).tokens) == 4


def test_what_was_cancelled_keeps_its_text():
    ids = letters("once upon a time")
    e = Engine(writes(ids, 1), num_draft=0)
    with e.stream([4], stop="time after") as stream:
        shown = [next(stream).text for _ in range(6)]
    assert "".join(shown) == stream.done.text == "once u"


# ------------------------------------------------------------------ when


def test_pieces_and_completions_say_when():
    """By the engine's clock, whenever somebody looks: a reader's delay is not in it."""
    engine, now = Engine(target(), num_draft=0, max_batch=1), [100.0]
    engine._scheduler.clock = lambda: now[0]
    first = engine.submit([0], max_tokens=3, seed=1)
    now[0] = 101.0
    second = engine.submit([1], max_tokens=2, seed=2)
    for _ in range(5):
        now[0] += 10
        engine.turn()
    now[0] = 1000.0
    assert [piece.at for piece in first.take()] == [111, 121, 131]
    assert [piece.at for piece in second.take()] == [141, 151]
    one, two = first.done, second.done
    assert (one.submitted, one.admitted, one.ended) == (100, 111, 131)
    assert (two.submitted, two.admitted, two.ended) == (101, 141, 151)


def test_what_never_had_a_slot_was_never_admitted():
    engine = Engine(target(), max_batch=1)
    runs = engine.submit([0], max_tokens=3)
    waits = engine.submit([0], max_tokens=3)
    engine.turn()
    waits.cancel()
    assert runs.take()
    assert waits.done.admitted is None
    assert waits.done.submitted <= waits.done.ended
