"""What a server needs of an engine: requests that are queued, watched, bounded, drained."""

from __future__ import annotations

import gc
import threading

import pytest

from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.errors import EngineClosedError, OptionError, OverloadedError
from forerun.models.tabular import TabularModel

from .fakes import (
    NONE_OPEN,
    OPTIONS,
    PROMPT,
    V,
    consistent,
    delivered,
    engine,
    open_slots,
    solo,
    target,
    within,
)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, e):
        self.now = 0.0
        e._scheduler.clock = self

    def __call__(self):
        return self.now


# ------------------------------------------------------------------ turns


def test_turns_by_hand():
    e = engine()
    assert not e.turn()
    stream = e.submit(PROMPT, **OPTIONS)
    assert stream.take() == []
    assert stream.done is None
    pieces = []
    while e.turn():
        pieces += stream.take()
    assert stream.take() == []
    assert delivered(pieces) == stream.done.tokens == solo()
    assert stream.wait()
    consistent(stream.done)
    assert open_slots(e) == NONE_OPEN


def test_whoever_waits_drives_for_all():
    """One is waited for; the other's pieces are there as well, from the same passes."""
    passes = []

    class Watched(TabularModel):
        def extend(self, steps):
            passes.append(len(steps))
            return super().extend(steps)

    e = Engine(Watched(target()._next_law, V))
    one, other = e.submit(PROMPT, **OPTIONS), e.submit([4, 4, 4], **OPTIONS)
    assert one.wait()
    assert delivered(other.take()) == other.done.tokens == solo([4, 4, 4])
    assert passes == [2] * 31


def test_wait_with_a_timeout_takes_turns_until_it_is_over():
    e = Engine(target(), num_draft=0)
    stream = e.submit(PROMPT, seed=1, max_tokens=10**6)
    assert not stream.wait(0.05)
    assert stream.done is None
    assert len(stream.take()) > 1
    assert stream.cancel().finish_reason == "cancelled"


def test_a_thread_of_its_own_takes_the_turns():
    with engine() as e:
        e.start()
        e.start()
        streams = [e.submit([i], **OPTIONS) for i in range(V)]
        assert all(stream.wait(20) for stream in streams)
        assert [s.done.tokens for s in streams] == [solo([i]) for i in range(V)]
        assert delivered(e.stream(PROMPT, **OPTIONS)) == e.generate(PROMPT, **OPTIONS).tokens
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("forerun") == 1
    assert "forerun" not in [thread.name for thread in threading.enumerate()]


def test_a_bug_ends_what_runs_and_the_thread_goes_on(caplog):
    def next_law(prefix):
        if prefix[0] == 1 and len(prefix) > 4:
            raise ZeroDivisionError("a bug")
        return [1 / V] * V

    with Engine(TabularModel(next_law, V), NgramDrafter(), num_draft=0, max_batch=2) as e:
        streams = [e.submit([i], **OPTIONS) for i in (0, 1, 2)]
        e.start()  # not before: the first would run alone, and could end
        assert all(stream.wait(20) for stream in streams)
        assert [s.done.finish_reason for s in streams] == ["error", "error", "length"]
        said = str(streams[0].done.error)
        assert said == "a round broke off: ZeroDivisionError: a bug"
        assert open_slots(e) == NONE_OPEN
    assert "a round broke off" in caplog.text


# ------------------------------------------------------------------ listeners


def test_listeners_hear_of_every_piece_and_of_the_end():
    e, heard = engine(), []

    def listener(stream):
        heard.append((delivered(stream.take()), stream.done))

    e.submit(PROMPT, listener=listener, **OPTIONS)
    gc.collect()  # the engine keeps the stream
    while e.turn():
        pass
    assert sum((tokens for tokens, _ in heard), ()) == solo()
    assert [done is not None for _, done in heard] == [False] * (len(heard) - 1) + [True]


def test_a_listener_that_fails_harms_nobody(caplog):
    def listener(stream):
        raise RuntimeError("mine")

    e = engine()
    stream = e.submit(PROMPT, listener=listener, **OPTIONS)
    assert stream.wait()
    assert stream.done.tokens == solo()
    assert "a listener failed" in caplog.text


def test_a_listener_may_cancel():
    e = engine()
    stream = e.submit(PROMPT, listener=lambda stream: stream.cancel(), **OPTIONS)
    assert within(10, stream.wait)
    assert stream.done.finish_reason == "cancelled"
    assert delivered(stream.take()) == stream.done.tokens != ()
    assert open_slots(e) == NONE_OPEN


# ------------------------------------------------------------------ deadlines


def test_a_deadline_ends_a_request_in_its_slot_and_in_the_queue():
    e = engine(max_batch=1)
    clock = Clock(e)
    running = e.submit(PROMPT, deadline=10, **OPTIONS)
    queued = e.submit([4], deadline=5, **OPTIONS)
    later = e.submit([3], deadline=50, **OPTIONS)
    e.turn()
    clock.now = 6
    e.turn()
    assert (queued.done.finish_reason, queued.done.tokens) == ("cancelled", ())
    assert running.done is None
    clock.now = 10
    e.turn()
    assert running.done.finish_reason == "cancelled"
    assert running.done.error is None
    assert running.done.tokens == solo()[: len(running.done.tokens)] != ()
    assert later.wait()
    assert later.done.tokens == solo([3])
    assert open_slots(e) == NONE_OPEN


@pytest.mark.parametrize("deadline", [0, -1, "1", True, float("nan")])
def test_deadlines_that_are_none(deadline):
    with pytest.raises(OptionError, match="deadline must be seconds above 0, or None, not"):
        engine().submit(PROMPT, deadline=deadline)


# ------------------------------------------------------------------ the queue's end


def test_more_than_may_wait_are_refused():
    e = engine(max_batch=2, max_waiting=1)
    streams = [e.submit([i], **OPTIONS) for i in range(3)]
    with pytest.raises(OverloadedError, match="3 requests wait, and at most 1 may: no room for 1"):
        e.submit([3], **OPTIONS)
    e.turn()
    with pytest.raises(OverloadedError):
        e.generate_batch([[3], [4]], OPTIONS)
    assert all(stream.wait() for stream in streams)
    assert [s.done.tokens for s in streams] == [solo([i]) for i in range(3)]
    assert e.generate([3], **OPTIONS).tokens == solo([3])


def test_more_at_once_than_could_ever_be_taken():
    """Not "later", on an idle engine too; as many as fit are taken, all of them."""
    e = engine(max_batch=2, max_waiting=1)
    said = "4 requests at once: this engine takes 3 at most, of which 2 run"
    with pytest.raises(OptionError, match=said):
        e.submit_choices([0], 4, **OPTIONS)
    with pytest.raises(OptionError, match=said):
        e.generate_batch([[0]] * 4, OPTIONS)
    assert e.status().waiting == 0
    assert len(e.generate_choices([0], 3, **OPTIONS)) == 3


@pytest.mark.parametrize("most", [-1, 1.5, True, "8"])
def test_max_waiting(most):
    with pytest.raises(OptionError, match="max_waiting must be a whole number of at least 0, or"):
        engine(max_waiting=most)
    assert engine(max_waiting=0).generate([0], max_tokens=1).tokens


def test_draining():
    e = engine(max_batch=1)
    streams = [e.submit([i], **OPTIONS) for i in range(3)]
    assert e.drain()
    assert [s.done.tokens for s in streams] == [solo([i]) for i in range(3)]
    for call in (e.submit, e.generate, e.stream):
        with pytest.raises(EngineClosedError, match="this engine drains: it takes no more req"):
            call(PROMPT)
    assert e.drain(0)


def test_draining_has_a_limit():
    e = Engine(target(), num_draft=0)
    stream = e.submit(PROMPT, seed=1, max_tokens=10**6)
    assert not e.drain(0.05)
    assert stream.done is None
    e.close()
    assert stream.done.finish_reason == "cancelled"


def test_closing_cancels_what_is_there():
    e = engine(max_batch=1)
    streams = [e.submit([i], **OPTIONS) for i in range(3)]
    e.turn()
    e.close()
    assert [s.done.finish_reason for s in streams] == ["cancelled"] * 3
    assert [bool(s.done.tokens) for s in streams] == [True, False, False]
    assert open_slots(e) == NONE_OPEN
    e.close()
    with pytest.raises(EngineClosedError):
        e.start()


def test_closing_from_within_a_round():
    e = Engine(target(), NgramDrafter())

    def processor(ids, logits):
        e.close()
        return logits

    stream = e.stream(PROMPT, processors=[processor], **OPTIONS)
    within(10, lambda: list(stream))
    assert stream.done.finish_reason == "cancelled"
    assert open_slots(e) == NONE_OPEN


def test_status():
    e = engine(max_batch=2)
    short = e.submit([0], seed=1, max_tokens=1)
    long = e.submit([0] * 2000, **OPTIONS)
    waits = e.submit([1], **OPTIONS)
    counts = lambda: (e.status().running, e.status().reading, e.status().waiting)  # noqa: E731
    assert counts() == (0, 0, 3)
    e.turn()
    assert counts() == (0, 1, 1)
    e.turn()
    assert counts() == (1, 1, 0)
    assert all(stream.wait() for stream in (short, long, waits))
    assert counts() == (0, 0, 0)
