"""On the native backend each request equals its solo run, bit for bit: greedy and coupled, in any
company and order, after it gave way for memory, with and without what was read before."""

from __future__ import annotations

import random

import pytest

from forerun import Engine
from forerun.drafters import HybridDrafter, ModelDrafter, SuffixDrafter
from forerun.engine import scheduler
from models.native.small import file, load

V = 23


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def paths(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    return file(folder, request.param), file(folder, "mistral", seed=1)


def request(i):
    rng = random.Random(i)
    prompt = rng.choices(range(V), k=rng.randint(1, 70))
    options = {"max_tokens": rng.randint(20, 60), "logprobs": 1}
    if i % 3 == 0:
        return prompt, {**options, "temperature": 0.0}
    return prompt, {**options, "seed": i, "temperature": 0.7 + 0.1 * i}


REQUESTS = [request(i) for i in range(7)]


@pytest.fixture(scope="module")
def alone(paths):
    """Plain decoding, one after another."""
    engine = Engine(load(paths[0]))
    return [engine.generate(prompt, **options) for prompt, options in REQUESTS]


def engine(paths, *, tokens=None, **options):
    model = load(paths[0])
    if tokens is not None:
        model = load(paths[0], max_memory=tokens * model._runner.bytes_per_cell)
    drafter = HybridDrafter([SuffixDrafter(memory_bytes=1 << 16), ModelDrafter(load(paths[1]))])
    return Engine(model, drafter, **{"num_draft": 4, **options})


def same(done, expected):
    assert done.finish_reason == expected.finish_reason
    assert done.tokens == expected.tokens
    assert done.logprobs == expected.logprobs  # bits of the raw logits


def test_in_company(paths, alone):
    found = engine(paths).generate_batch(*map(list, zip(*REQUESTS)))
    for done, expected in zip(found, alone, strict=True):
        same(done, expected)


@pytest.mark.parametrize("seed", range(3))
def test_in_any_order_of_arrival_while_others_are_cancelled(paths, alone, seed):
    dice = random.Random(seed)
    e = engine(paths, max_batch=4, num_draft="auto" if seed else 3, costs=[1e-3 + 1e-5] * 16)
    order = dice.sample(range(7), k=7)
    streams, others = {}, []
    for i in order:
        streams[i] = e.submit(REQUESTS[i][0], **REQUESTS[i][1])
        others.append(e.submit(dice.choices(range(V), k=30), max_tokens=200))
        for _ in range(dice.randint(0, 9)):
            e.turn()
        dice.choice(others).cancel()
    for other in others:
        other.cancel()
    for i, stream in streams.items():
        assert stream.wait()
        same(stream.done, alone[i])
    assert len(e.target._slots) == 0


@pytest.mark.parametrize("prefix_memory", [0, 1 << 20])
def test_after_giving_way_for_memory(paths, alone, prefix_memory, monkeypatch):
    """Pages of 64 tokens: three for two requests that want two each, and more that wait."""
    monkeypatch.setattr(scheduler, "AHEAD", 0)
    e = engine(paths, tokens=3 * 64, prefix_memory=prefix_memory)
    found = e.generate_batch(*map(list, zip(*REQUESTS)))
    for done, expected in zip(found, alone, strict=True):
        same(done, expected)
    assert e.status().preempted > 0
    assert len(e.target._slots) == 0


def test_with_what_was_read_before(paths, alone):
    e = engine(paths, prefix_memory=1 << 20)
    for _ in range(2):
        for i, (prompt, options) in enumerate(REQUESTS):
            done = e.generate(prompt, **options)
            same(done, alone[i])
    assert done.cached_tokens == len(prompt) - 1


def test_choices(paths, alone):
    """Of one prompt, read once; choice 0 is the solo run."""
    prompt, options = REQUESTS[1]
    e = engine(paths, max_batch=2)
    found = e.generate_choices(prompt, 3, **options)
    same(found[0], alone[1])
    again = Engine(load(paths[0])).generate_choices(prompt, 3, **options)
    assert [done.tokens for done in found] == [done.tokens for done in again]
    assert len({done.tokens for done in found}) == 3
