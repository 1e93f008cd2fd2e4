"""Memory: what can never fit is refused, what does not fit waits, and two that outgrow it both end
as they would alone."""

from __future__ import annotations

import itertools

import pytest

from certify.tables import table
from forerun import Engine
from forerun.drafters import ModelDrafter
from forerun.errors import CacheError
from forerun.models.tabular import TOKEN_BYTES, TabularModel
from forerun.verifiers import VERIFIERS

from .fakes import NONE_OPEN, V, consistent, draft, drafters, open_slots, target

each_verifier = pytest.mark.parametrize("verifier", [*VERIFIERS, "auto"])
FIT = 120  # tokens


class Surprised(TabularModel):
    """Says that all fits, and finds out in the pass; or in `open`."""

    def fits(self, lengths):
        return True


def small(fit=FIT, kind=TabularModel):
    return kind(table(V, 1), V, max_memory=fit * TOKEN_BYTES)


def requests(count, length=30, budget=60):
    prompts = [[(i * j) % V for j in range(1, length + i)] for i in range(1, count + 1)]
    return prompts, [{"seed": i, "max_tokens": budget + i} for i in range(count)]


def expected(prompts, params, **options):
    alone = Engine(target(), **options)
    return [alone.generate(ids, **each).tokens for ids, each in zip(prompts, params)]


def test_what_can_never_fit_is_refused_at_once():
    engine = Engine(small())
    said = (
        "a prompt of 100 tokens and an answer of at most 22 need a cache of 121 tokens, and "
        "tabular has memory for 120"
    )
    for call in (engine.generate, engine.stream, engine.submit):
        with pytest.raises(CacheError, match=said):
            call([0] * 100, max_tokens=22)
    with pytest.raises(CacheError, match=said):
        engine.generate_batch([[0], [0] * 100], {"max_tokens": 22})
    assert len(engine.generate([0] * 100, max_tokens=21).tokens) == 21
    assert engine.status().cache_bytes == 0


def test_the_context_bounds_an_answer_before_memory_does():
    engine = Engine(TabularModel(table(V, 1), V, context=20, max_memory=19 * TOKEN_BYTES))
    assert len(engine.generate([0] * 10, max_tokens=99).tokens) == 10


def test_what_does_not_fit_waits():
    """Room for 64 tokens more of each is what lets one in."""
    engine = Engine(small(2 * (40 + 64) + 10))
    streams = [engine.submit([i] * 40, seed=1, max_tokens=64) for i in range(3)]
    engine.turn()
    assert (engine.status().running, engine.status().waiting) == (2, 1)
    assert all(stream.wait() for stream in streams)
    assert engine.status().preempted == 0
    prompts = [[i] * 40 for i in range(3)]
    found = [stream.done.tokens for stream in streams]
    assert found == expected(prompts, [{"seed": 1, "max_tokens": 64}] * 3)


@each_verifier
@pytest.mark.parametrize("kind", [TabularModel, Surprised])
@pytest.mark.parametrize("name", ["none", "model", "its own model", "suffix", "several"])
def test_two_that_outgrow_memory_both_end(name, kind, verifier):
    """Each fits alone, together they do not: the younger waits, is read again, and goes on."""
    prompts, params = requests(3, length=4, budget=90)
    options = {"verifier": verifier, "num_draft": 3}
    engine = Engine(small(145, kind), drafters()[name](), **options)
    found = engine.generate_batch(prompts, params)
    assert [done.finish_reason for done in found] == ["length"] * 3
    assert engine.status().preempted > 0
    assert open_slots(engine) == NONE_OPEN
    if verifier in ("coupled", "auto") or kind is TabularModel:
        alone = expected(prompts, params, drafter=drafters()[name](), **options)
        assert [done.tokens for done in found] == alone
    if kind is TabularModel:  # no round broke off, so that none is missing from the count
        for done in found:
            consistent(done)


def test_the_oldest_is_never_sent_back():
    engine = Engine(small(145), num_draft=0)
    prompts, params = requests(4, length=4, budget=90)
    streams = [engine.submit(ids, **each) for ids, each in zip(prompts, params)]
    before, oldest = [0] * 4, 0
    while engine.turn():
        lengths = [stream._job.length for stream in streams]
        if oldest is not None:
            assert lengths[oldest] > before[oldest]
        before = lengths
        oldest = next((i for i, stream in enumerate(streams) if stream.done is None), None)
    assert [s.done.tokens for s in streams] == expected(prompts, params)


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_in_any_order_of_arrival(order):
    prompts, params = requests(3, length=20, budget=70)
    alone = expected(prompts, params)
    engine = Engine(small(150), ModelDrafter(draft()))
    streams = {}
    for i in order:
        streams[i] = engine.submit(prompts[i], **params[i])
        for _ in range(7):
            engine.turn()
    for i, stream in streams.items():
        assert stream.wait()
        assert stream.done.tokens == alone[i]
    assert open_slots(engine) == NONE_OPEN


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_a_preempted_request_can_be_cancelled_and_meets_its_deadline(how):
    engine = Engine(small(145), num_draft=0)
    now = [0.0]
    engine._scheduler.clock = lambda: now[0]
    prompts, params = requests(3, length=4, budget=90)
    streams = [engine.submit(ids, deadline=100, **p) for ids, p in zip(prompts, params)]
    while not engine.status().preempted:
        assert engine.turn()
    assert streams[1]._job.generation.output
    if how == "deadline":
        now[0] = 100.0
        engine.turn()
    else:
        streams[1].cancel()
        streams[0].cancel()
        streams[2].cancel()
    done = streams[1].done
    assert done.finish_reason == "cancelled"
    assert len(done.tokens) > 20
    assert done.tokens == expected(prompts, params)[1][: len(done.tokens)]
    assert done.trace
    assert open_slots(engine) == NONE_OPEN
    assert not engine.turn()


def test_streams_of_preempted_requests_miss_nothing():
    prompts, params = requests(3, length=4, budget=90)
    engine = Engine(small(145), ModelDrafter(draft()))
    streams = [engine.submit(ids, **each) for ids, each in zip(prompts, params)]
    found = [tuple(t for piece in stream for t in piece.tokens) for stream in streams]
    assert engine.status().preempted
    assert found == expected(prompts, params)


# ------------------------------------------------------------------ texts that were read before


class Watched(TabularModel):
    """Counts the tokens it reads."""

    read = 0

    def extend(self, steps):
        rows = super().extend(steps)
        self.read += sum(len(step.tokens) for step in steps)
        return rows


def remembering(**options):
    return Engine(Watched(table(V, 1), V), prefix_memory=1 << 20, **options)


def test_the_second_turn_of_a_chat_reads_nothing_again():
    engine = remembering()
    prompt = [i % V for i in range(300)]
    first = engine.generate(prompt, seed=1, max_tokens=40)
    assert (first.cached_tokens, engine.target.read) == (0, 299 + 40)
    before = engine.target.read
    longer = [*first.prompt, *first.tokens, 1, 2, 3]
    again = engine.generate(longer, seed=2, max_tokens=10)
    assert again.cached_tokens == 300 + 39
    assert engine.target.read - before == 3 + 10
    assert again.tokens == Engine(target()).generate(longer, seed=2, max_tokens=10).tokens
    found = engine.status()
    assert (found.prefix_hits, found.prefix_hit_tokens) == (1, 339)
    assert found.prefix_bytes > 0


def test_tenants_share_nothing_unless_told_to():
    prompt = [i % V for i in range(200)]
    for share, known in ((False, [0, 0, 199, 199]), (True, [0, 199, 199, 199])):
        engine = remembering(share_prefixes=share)
        found = []
        for tenant in ("a", "b", "a", "b"):
            stream = engine.submit(prompt, tenant=tenant, seed=1, max_tokens=5)
            assert stream.wait()
            found.append(stream.done.cached_tokens)
        assert found == known


def test_a_preempted_request_is_not_read_again_where_it_is_remembered():
    prompts, params = requests(2, length=4, budget=90)
    model = Watched(table(V, 1), V, max_memory=145 * TOKEN_BYTES)
    engine = Engine(model, num_draft=0, prefix_memory=1 << 20)
    found = engine.generate_batch(prompts, params)
    assert engine.status().preempted > 0
    assert [done.tokens for done in found] == expected(prompts, params)
    assert [done.cached_tokens for done in found] == [0, 0]
    assert model.read == sum(len(d.prompt) + len(d.tokens) - 1 for d in found)


def test_what_a_request_read_itself_before_it_was_preempted_was_not_cached():
    model = Watched(table(V, 1), V, max_memory=1110 * TOKEN_BYTES)
    engine = Engine(model, num_draft=0, prefix_memory=1 << 20)
    engine._scheduler._pace.tokens = lambda *, decoding: 8  # so the older outgrows the younger
    older = engine.submit([1, 2], seed=1, max_tokens=300)
    engine.turn()
    prompt = [i % V for i in range(1020)]
    younger = engine.submit(prompt, seed=2, max_tokens=20)
    while not engine.status().preempted:
        assert engine.turn()
    assert not younger.take()
    while older.done is None or younger.done is None:
        assert engine.turn()
    assert engine.status().prefix_hit_tokens > 0  # it went on from what it had read
    assert (older.done.cached_tokens, younger.done.cached_tokens) == (0, 0)
    assert younger.done.tokens == expected([prompt], [{"seed": 2, "max_tokens": 20}])[0]


def test_what_was_cancelled_in_the_middle_of_its_prompt_is_remembered():
    engine = remembering()
    prompt = [i % V for i in range(900)]
    stream = engine.submit(prompt, seed=1, max_tokens=5)
    engine.turn()
    stream.cancel()
    done = engine.generate(prompt, seed=1, max_tokens=5)
    assert done.cached_tokens == 512
    assert done.tokens == Engine(target()).generate(prompt, seed=1, max_tokens=5).tokens


def test_a_prompt_whose_logprobs_are_asked_for_is_read():
    engine = remembering()
    prompt = [i % V for i in range(100)]
    found = [engine.generate(prompt, seed=1, max_tokens=5, prompt_logprobs=1) for _ in range(2)]
    assert [done.cached_tokens for done in found] == [0, 0]
    assert found[0].prompt_logprobs == found[1].prompt_logprobs
    assert len(found[0].prompt_logprobs) == 100
