"""The thread that takes turns sleeps where nothing is to do, and wakes for what comes."""

import threading
import time

import pytest

from engine.fakes import Guessing, target
from forerun import Engine


def test_an_idle_thread_takes_no_turns():
    turns = []
    with Engine(target()) as engine:
        take = engine._scheduler.turn
        engine._scheduler.turn = lambda: turns.append(None) or take()
        engine.start()
        assert engine.submit([1, 2], max_tokens=4).wait(60)
        time.sleep(0.2)  # a thread that wakes itself takes thousands of turns meanwhile
        before = len(turns)
        time.sleep(0.2)
        assert len(turns) - before <= 1


def test_rings_do_not_pile_up():
    with Engine(target()) as engine:
        engine.start()
        for _ in range(50):
            assert engine.submit([1, 2], max_tokens=8).wait(60)
        (sleeper,) = engine._driver._bell._sleepers
        assert sleeper._rung.qsize() <= 2


def test_a_cancel_beside_the_thread_is_done_by_the_thread():
    ended = []
    with Engine(target(), max_batch=1) as engine:
        retire = engine._scheduler.retire
        engine._scheduler.retire = lambda: ended.append(threading.current_thread()) or retire()
        engine.start()
        streams = [engine.submit([1], max_tokens=5_000) for _ in range(3)]
        for stream in reversed(streams):
            stream.cancel(wait=False)
        assert all(stream.wait(60) for stream in streams)
        assert threading.current_thread() not in ended
        assert engine.submit([1, 2], max_tokens=4).wait(60)  # it is still awake


def test_a_listener_may_submit_what_the_thread_then_runs():
    followers = []
    with Engine(target()) as engine:
        engine.start()

        def again(stream):
            if stream.done is not None and not followers:
                followers.append(engine.submit([3], max_tokens=3))

        assert engine.submit([1], max_tokens=2, listener=again).wait(60)
        give_up = time.monotonic() + 60
        while not followers and time.monotonic() < give_up:
            time.sleep(0.01)
        assert followers[0].wait(60)


class Panic(BaseException):
    """As a library written in Rust raises it."""


@pytest.mark.parametrize("error", [RuntimeError, Panic, SystemExit])
def test_the_thread_outlives_what_breaks_a_round(error):
    def guess(before, count):
        raise error("it fell over")

    with Engine(target(), Guessing(guess), num_draft=2) as engine:
        engine.start()
        stream = engine.submit([1], max_tokens=8)
        assert stream.wait(60)
        assert "it fell over" in str(stream.done.error)
        assert engine.submit([1, 2], max_tokens=4, drafter=None).wait(60)
