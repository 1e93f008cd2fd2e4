"""Hundreds of random requests with cancels, deadlines, drops and errors: nothing is mixed up,
nothing leaks, nobody starves."""

from __future__ import annotations

import gc
import random
import threading

import pytest

from certify.tables import table
from forerun import Engine
from forerun.drafters import ModelDrafter
from forerun.engine import scheduler
from forerun.errors import OverloadedError
from forerun.models.tabular import TOKEN_BYTES, TabularModel

from .fakes import NONE_OPEN, V, draft, drafters, open_slots, target

SICK = 4  # a prompt that begins with it comes to a bad end


def next_law(prefix):
    return [float("nan")] * V if prefix[0] == SICK and len(prefix) > 12 else sound(prefix)


sound = table(V, 1)


def made(dice):
    prompt = [dice.randrange(V) for _ in range(dice.choice([1, 3, 10, 60]))]
    return prompt, {"max_tokens": dice.randint(1, 25), "seed": dice.randrange(5)}


def plain():
    known: dict = {}

    def solo(prompt, options):
        key = (tuple(prompt), tuple(options.items()))
        if key not in known:
            engine = Engine(TabularModel(next_law, V))
            known[key] = engine.generate_batch([prompt], options)[0]
        return known[key]

    return solo


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["none", "several", "suffix, memory"])
def test_a_storm(name, seed, monkeypatch):
    monkeypatch.setattr(scheduler, "AHEAD", 0)  # so that texts outgrow memory
    dice, solo = random.Random(seed), plain()
    model = TabularModel(next_law, V, max_memory=150 * TOKEN_BYTES)
    e = Engine(
        model, drafters()[name](), max_batch=4, max_waiting=5, num_draft=3,
        prefix_memory=1 << 12 if seed % 2 else 0,
    )  # fmt: skip
    now = [0.0]
    e._scheduler.clock = lambda: now[0]
    kept, refused, shared = [], 0, []
    for _ in range(150):
        (prompt, options), streams = made(dice), []
        try:
            deadline = dice.choice([None, None, dice.randint(1, 30)])
            if dice.random() < 0.15:
                streams = e.submit_choices(prompt, 3, deadline=deadline, **options)
            else:
                streams = [e.submit(prompt, deadline=deadline, **options)]
        except OverloadedError:
            refused += 1
        else:
            fate = dice.choice(["keep", "keep", "cancel", "drop"])
            if fate != "drop":
                kept.append((streams, prompt, options))
            if fate == "cancel":
                shared += streams
        streams = None  # some are dropped here
        for _ in range(dice.choice([0, 0, 0, 2])):
            now[0] += 1
            e.turn()
        if shared and dice.random() < 0.5:
            shared.pop(dice.randrange(len(shared))).cancel()
    gc.collect()
    while e.turn():
        now[0] += 1
    assert refused
    reasons = set()
    for streams, prompt, options in kept:
        whole = solo(prompt, options)
        for stream in streams:
            done = stream.done
            reasons.add(done.finish_reason)
            delivered = tuple(t for piece in stream.take() for t in piece.tokens)
            assert delivered == done.tokens
            if done.choice == 0:
                if done.finish_reason != "length":  # an error's own round counts for nothing
                    assert done.tokens == whole.tokens[: len(done.tokens)]
                else:
                    assert (done.tokens, done.finish_reason) == (whole.tokens, whole.finish_reason)
    assert reasons == {"length", "cancelled", "error"}
    assert e.status().preempted
    assert open_slots(e) == NONE_OPEN
    assert e.status().cache_bytes == 0
    assert e._scheduler.idle


@pytest.mark.parametrize("served", [False, True], ids=["callers drive", "a thread drives"])
def test_threads(served):
    """Callers of every kind at once, from many threads; each gets its own text."""
    e = Engine(TabularModel(sound, V), ModelDrafter(draft()), max_batch=3)
    if served:
        e.start()
    wrong, barrier = [], threading.Barrier(6)
    jobs = [[made(random.Random(10 * me + i)) for i in range(8)] for me in range(6)]
    expected = [[Engine(target()).generate(p, **o).tokens for p, o in mine] for mine in jobs]

    def work(me):
        barrier.wait()
        for i, (prompt, options) in enumerate(jobs[me]):
            if i % 4 == 0:
                found = e.generate(prompt, **options).tokens
            elif i % 4 == 1:
                found = tuple(t for piece in e.stream(prompt, **options) for t in piece.tokens)
            elif i % 4 == 2:
                found = e.generate_choices(prompt, 2, **options)[0].tokens
            else:
                e.submit([0, 1], max_tokens=50)  # dropped
                stream = e.submit(prompt, **options)
                while not stream.wait(0.001):
                    pass
                found = stream.done.tokens
            if found != expected[me][i]:
                wrong.append((me, i))

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    e.close()
    assert open_slots(e) == NONE_OPEN


# ------------------------------------------------------------------ fairness


def test_a_long_prompt_does_not_stall_those_that_decode():
    """Between two rounds it reads no more than takes about one round's time."""
    now, passes = [0.0], []

    class Timed(TabularModel):
        """A pass takes a second, and a hundredth for each token beyond the first."""

        def extend(self, steps):
            count = sum(len(step.tokens) for step in steps)
            seconds = 1 + 0.01 * (count - 1)
            now[0] += seconds
            passes.append(("read" if steps[0].rows == 0 else "round", count, seconds))
            return super().extend(steps)

    e = Engine(Timed(sound, V), num_draft=0)
    e._scheduler.clock = lambda: now[0]
    short = e.submit([1, 2, 3], seed=1, max_tokens=60)
    for _ in range(3):
        e.turn()
    long = e.submit([0] * 600, seed=1, max_tokens=5)
    while long.done is None:
        e.turn()
    reads = [i for i, (kind, *_) in enumerate(passes) if kind == "read" and passes[i][1] > 2]
    assert sum(passes[i][1] for i in reads) == 599
    for i in reads[1:]:  # the first is sized before anything of that length was timed
        assert passes[i][2] < 2.5
    between = [passes[i + 1][0] for i in reads[:-1]]
    assert set(between) == {"round"}
    assert short.wait()


def test_prompts_that_are_read_share_a_pass():
    shares = []

    class Watched(TabularModel):
        def extend(self, steps):
            if not steps[0].rows:
                shares.append([len(step.tokens) for step in steps])
            return super().extend(steps)

    e = Engine(Watched(sound, V), num_draft=0)
    streams = [e.submit([i] * n, seed=1, max_tokens=1) for i, n in enumerate([1000, 1000, 20])]
    assert all(stream.wait() for stream in streams)
    assert streams[2].done.trace  # the short one is through after one pass
    assert shares[0] == [170, 171, 19]
    assert sum(map(sum, shares)) == 999 + 999 + 19


def test_nobody_starves():
    """One long prompt among short ones that never cease to come is read to its end."""
    e = Engine(TabularModel(sound, V), num_draft=0, max_batch=3)
    e._scheduler._pace.tokens = lambda decoding: 16
    long = e.submit([0] * 400, seed=1, max_tokens=5)
    others = []
    for turn in range(200):
        others.append(e.submit([turn % V] * 30, seed=1, max_tokens=2))
        e.turn()
        if long.done is not None:
            break
    assert long.done is not None
    e.close()
