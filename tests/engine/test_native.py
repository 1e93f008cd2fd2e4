"""On the native backend each request equals its solo run, bit for bit: greedy and coupled, in any
company and order, after it gave way for memory, with and without what was read before."""

from __future__ import annotations

import random

import pytest

from forerun import Engine
from forerun.certify.tiny_head import tiny_head
from forerun.drafters import HeadDrafter, HybridDrafter, ModelDrafter, SuffixDrafter
from forerun.engine import scheduler
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.model import HeadModel
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


@pytest.fixture(params=["model", "head"])
def engine(request, paths):
    """Makes engines whose second drafter is one of these."""

    def make(*, tokens=None, **options):
        model = load(paths[0])
        second = ModelDrafter(load(paths[1])) if request.param == "model" else head(model)
        if tokens is not None:
            second.check(model)
            model = load(paths[0], max_memory=tokens * model._cell_bytes)
        drafter = HybridDrafter([SuffixDrafter(memory_bytes=1 << 16), second])
        return Engine(model, drafter, **{"num_draft": 4, **options})

    return make


def head(model):
    hidden = model.embeddings().shape[1]
    config = HeadConfig(
        hidden=hidden, heads=2, kv_heads=1, head_width=32, feed_forward=64, taps=(1, 0),
        vocabulary=V, draft_vocabulary=9, context=300,
    )  # fmt: skip
    return HeadDrafter(HeadModel(tiny_head(config), model))


def same(done, expected):
    assert done.finish_reason == expected.finish_reason
    assert done.tokens == expected.tokens
    assert done.logprobs == expected.logprobs  # bits of the raw logits


def test_in_company(engine, alone):
    found = engine().generate_batch(*map(list, zip(*REQUESTS)))
    for done, expected in zip(found, alone, strict=True):
        same(done, expected)


@pytest.mark.parametrize("seed", range(3))
def test_in_any_order_of_arrival_while_others_are_cancelled(engine, alone, seed):
    dice = random.Random(seed)
    e = engine(max_batch=4, num_draft="auto" if seed else 3, costs=[1e-3 + 1e-5] * 16)
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
def test_after_giving_way_for_memory(engine, alone, prefix_memory, monkeypatch):
    """Pages of 64 tokens: three for two requests that want two each, and more that wait."""
    monkeypatch.setattr(scheduler, "AHEAD", 0)
    e = engine(tokens=3 * 64, prefix_memory=prefix_memory)
    found = e.generate_batch(*map(list, zip(*REQUESTS)))
    for done, expected in zip(found, alone, strict=True):
        same(done, expected)
    assert e.status().preempted > 0
    assert len(e.target._slots) == 0


def test_with_what_was_read_before(engine, alone):
    e = engine(prefix_memory=1 << 22)
    for _ in range(2):
        for i, (prompt, options) in enumerate(REQUESTS):
            done = e.generate(prompt, **options)
            same(done, alone[i])
    assert done.cached_tokens == len(prompt) - 1


def test_choices(engine, paths, alone):
    """Of one prompt, read once; choice 0 is the solo run."""
    prompt, options = REQUESTS[1]
    e = engine(max_batch=2)
    found = e.generate_choices(prompt, 3, **options)
    same(found[0], alone[1])
    again = Engine(load(paths[0])).generate_choices(prompt, 3, **options)
    assert [done.tokens for done in found] == [done.tokens for done in again]
    assert len({done.tokens for done in found}) == 3
