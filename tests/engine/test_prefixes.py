"""Requests with a prefix cache: what is read again, what is written, and for whom."""

from __future__ import annotations

import random

import pytest

from certify.tables import table
from forerun import clib
from forerun.api import load
from forerun.drafters import HybridDrafter, ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.engine import Engine
from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Abilities
from forerun.models.tabular import TOKEN_BYTES, TabularModel
from models.native.small import CASES, PATHS, file
from models.native.small import load as native

from .fakes import V, draft, follows, target

PLENTY = 1 << 20
PROMPT = [i * i % V for i in range(100)]


class Counting(TabularModel):
    """Counts the tokens it is fed, and those of them that a prompt pass reads."""

    def __init__(self, **options):
        super().__init__(table(V, 1), V, **options)
        self.fed = 0

    def extend(self, steps):
        self.fed += sum(len(step.tokens) for step in steps)
        return super().extend(steps)


def read(engine, prompt, tokens=8, **options):
    """What a request wrote, and how many tokens were read before its first round."""
    before = engine.target.fed
    done = engine.submit(prompt, max_tokens=tokens, **{"seed": 3, **options})
    done.wait()
    (done,) = [done.done]
    assert done.error is None
    return list(done.tokens), engine.target.fed - before - len(done.tokens)


def plainly(prompt, tokens=8, **options):
    return read(Engine(Counting()), prompt, tokens, **options)[0]


# ------------------------------------------------------------------ what is read again


def test_the_second_turn_of_a_chat_reads_nothing_twice():
    engine = Engine(Counting(), prefix_memory=PLENTY)
    text, asked = list(PROMPT), 0
    for turn, question in enumerate([[], [1, 2, 3, 4, 0], [0] * 70, [2]]):
        text += question
        answer, count = read(engine, text)
        assert answer == plainly(text)
        if turn == 0:
            assert count == len(PROMPT) - 1
        else:  # the answer's last token was never read; the question's last is read by the round
            assert count == len(question)
            asked += 1
        text += answer
    status = engine.status()
    assert status.prefix_hits == asked
    assert status.prefix_bytes == TOKEN_BYTES * (len(text) - 1)


def test_without_a_prefix_cache_all_is_read():
    engine = Engine(Counting())
    assert [read(engine, PROMPT)[1] for _ in range(2)] == [99, 99]
    assert engine.status().prefix_bytes == 0


def test_a_system_prompt_is_read_once():
    engine = Engine(Counting(), prefix_memory=PLENTY)
    counts = [read(engine, [*PROMPT, *question])[1] for question in ([1, 1], [2, 3, 4], [1], [3])]
    assert counts == [101, 2, 0, 0]


def test_requests_that_run_together():
    """Both read the prompt, for neither was there when the other came; the third reads nothing."""
    engine = Engine(Counting(), prefix_memory=PLENTY)
    streams = [engine.submit(PROMPT, max_tokens=5, seed=seed) for seed in (1, 2)]
    for seed, stream in zip((1, 2), streams):
        stream.wait()
        assert list(stream.done.tokens) == plainly(PROMPT, 5, seed=seed)
    assert read(engine, PROMPT)[1] == 0


def test_a_cancelled_request_leaves_what_it_read():
    engine = Engine(Counting(), prefix_memory=PLENTY)
    stream = engine.submit(PROMPT, max_tokens=50, seed=1)
    next(stream)
    stream.cancel()
    assert read(engine, PROMPT)[1] == 0


def test_choices_share_one_reading():
    engine = Engine(Counting(), prefix_memory=PLENTY)
    before = engine.target.fed
    streams = engine.submit_choices(PROMPT, 3, max_tokens=4, seed=1)
    for stream in streams:
        stream.wait()
    assert engine.target.fed - before == len(PROMPT) - 1 + 3 * 4
    assert list(streams[0].done.tokens) == plainly(PROMPT, 4, seed=1)


def test_the_limit_holds_all_the_time():
    engine = Engine(Counting(), prefix_memory=70 * TOKEN_BYTES)
    for start in range(5):
        prompt = PROMPT[start:]
        answer, _ = read(engine, prompt)
        assert answer == plainly(prompt)
        assert 0 < engine.status().prefix_bytes <= 70 * TOKEN_BYTES


def test_slots_hold_no_more_than_without():
    """What is restored counts as what is read does."""
    engine = Engine(Counting(max_memory=110 * TOKEN_BYTES), prefix_memory=PLENTY)
    for _ in range(2):
        assert read(engine, PROMPT)[0] == plainly(PROMPT)
    assert engine.target.cache_bytes == 0


def test_who_was_sent_back_for_memory_goes_on_from_pages():
    """Two that outgrow memory together: the younger waits, then reads almost nothing again."""
    model = Counting(max_memory=250 * TOKEN_BYTES)
    engine = Engine(model, prefix_memory=PLENTY)
    prompts = [PROMPT, [3, *PROMPT]]
    streams = [engine.submit(prompt, max_tokens=60, seed=7) for prompt in prompts]
    for prompt, stream in zip(prompts, streams):
        stream.wait()
        assert list(stream.done.tokens) == plainly(prompt, 60, seed=7)
    needed = sum(len(prompt) - 1 + 60 for prompt in prompts)
    assert model.fed <= needed + 4, "of a text that was there, at most its last tokens"


def test_from_load_for_both_models():
    helper = draft()
    engine = load(Counting(), draft_model=helper, num_draft=2, prefix_memory=PLENTY, max_waiting=7)
    assert engine.max_waiting == 7
    assert [read(engine, PROMPT, tenant=tenant)[0] for tenant in ("a", "b")] == [
        plainly(PROMPT)
    ] * 2
    assert engine.status().prefix_hits == 0
    engine.generate(PROMPT, max_tokens=8, seed=3)
    kept = engine.drafter._prefixes
    assert (kept.max_bytes, kept.hits) == (PLENTY, 0)
    engine.generate(PROMPT, max_tokens=8, seed=3)
    assert (kept.hits, kept.hit_tokens) == (1, 99)
    shared = load(Counting(), prefix_memory=PLENTY, share_prefixes=True)
    assert [read(shared, PROMPT, tenant=tenant)[1] for tenant in ("a", "b")] == [99, 0]


# ------------------------------------------------------------------ tenants


def test_tenants_read_for_themselves():
    engine = Engine(Counting(), prefix_memory=PLENTY)
    counts = [read(engine, PROMPT, tenant=tenant)[1] for tenant in ("a", "b", "", "a", "b", "")]
    assert counts == [99, 99, 99, 0, 0, 0]


def test_shared_prefixes_are_read_once():
    engine = Engine(Counting(), prefix_memory=PLENTY, share_prefixes=True)
    assert [read(engine, PROMPT, tenant=tenant)[1] for tenant in ("a", "b", "")] == [99, 0, 0]


@pytest.mark.parametrize("share", [False, True])
def test_the_suffix_memory_goes_by_the_same_rule(share):
    drafter = SuffixDrafter(memory_bytes=1 << 16)
    engine = Engine(Counting(), drafter, num_draft=4, share_prefixes=share, verifier="coupled")
    first = engine.submit(PROMPT, max_tokens=30, seed=1, tenant="a")
    first.wait()
    again = []
    for tenant in ("b", "a"):
        stream = engine.submit(PROMPT, max_tokens=30, seed=1, tenant=tenant)
        stream.wait()
        assert stream.done.tokens == first.done.tokens
        again.append(stream.done.stats.accepted)
    assert again[1] > first.done.stats.accepted
    assert (again[0] > first.done.stats.accepted) is share


# ------------------------------------------------------------------ what is written


DRAFTERS = {
    "none": lambda: None,
    "ngram": NgramDrafter,
    "suffix": lambda: SuffixDrafter(memory_bytes=1 << 16),
    "model": lambda: ModelDrafter(draft()),
    "what is not there": lambda: follows([4] * 200, 0),
}


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 5}, {"seed": 5, "top_k": 3}])
def test_texts_are_those_of_an_engine_without(name, options):
    """In any company and with any hits; greedy and seeded."""
    verifier = "auto" if name != "none" else "coupled"
    engine = Engine(target(), DRAFTERS[name](), num_draft=3, prefix_memory=PLENTY, max_batch=3)
    solo = Engine(target(), DRAFTERS[name](), num_draft=3)
    prompts = [PROMPT, PROMPT[:70], [*PROMPT, 1, 2], PROMPT[:64], [*PROMPT[:64], 4], [2], PROMPT]
    expected = [
        solo.generate(p, max_tokens=12, verifier=verifier, **options).tokens for p in prompts
    ]
    streams = [engine.submit(p, max_tokens=12, verifier=verifier, **options) for p in prompts]
    for stream, tokens in zip(streams, expected):
        stream.wait()
        assert stream.done.tokens == tokens
    assert engine.status().prefix_hits > 2


@pytest.mark.parametrize("seed", [0, 5])  # of which both make requests leave their slots
def test_any_traffic_writes_what_each_would_alone(seed):
    """Little memory for slots and for pages, three tenants, some cancelled."""
    dice = random.Random(seed)
    bounds = {"max_memory": 200 * TOKEN_BYTES}
    drafter = HybridDrafter([SuffixDrafter(memory_bytes=1 << 14), ModelDrafter(draft())])
    engine = Engine(
        Counting(**bounds), drafter, num_draft=3, max_batch=4, prefix_memory=300 * TOKEN_BYTES
    )
    asked = []
    for number in range(30):
        prompt = [
            *PROMPT[: dice.choice([3, 20, 64, 70])],
            *dice.choices(range(V), k=dice.randrange(4)),
        ]
        count, tenant = dice.randint(1, 120), dice.choice(["", "a", "b"])
        stream = engine.submit(prompt, max_tokens=count, seed=number, tenant=tenant)
        asked.append((prompt, count, number, stream))
        for _ in range(dice.randrange(8)):
            engine.turn()
            assert engine.status().prefix_bytes <= 300 * TOKEN_BYTES
        if dice.random() < 0.2:
            stream.cancel()
    while engine.turn():
        assert engine.target.cache_bytes <= 200 * TOKEN_BYTES
    for prompt, count, number, stream in asked:
        alone = plainly(prompt, count, seed=number)
        assert list(stream.done.tokens) == alone[: len(stream.done.tokens)]
        assert stream.done.finish_reason in ("length", "cancelled")
        if stream.done.finish_reason == "length":
            assert len(stream.done.tokens) == count
    assert engine.status().prefix_hits > 5
    assert engine._scheduler.preempted
    assert engine.target.cache_bytes == 0
    assert not drafter.parts["model"].model._cached


@pytest.mark.skipif(clib.library() is None, reason="the C library was not built")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernels", [*PATHS[:1], "numpy"])
def test_not_a_bit_changes_on_native(case, kernels, tmp_path):
    """Logprobs of prompt and answer, to the last bit, whatever was known of the text."""
    path = file(tmp_path, case)
    text = [i * 7 % 23 for i in range(150)]
    options = {"max_tokens": 6, "seed": 2, "logprobs": 4}
    cached = Engine(native(path, kernels), NgramDrafter(), num_draft=2, prefix_memory=1 << 28)
    for length in (150, 149, 100, 150, 128, 129, 64, 65, 1):
        fresh = Engine(native(path, kernels), NgramDrafter(), num_draft=2)
        ours, theirs = (e.generate(text[:length], **options) for e in (cached, fresh))
        assert ours.tokens == theirs.tokens
        assert ours.logprobs == theirs.logprobs
    assert cached.status().prefix_hits == 8 - 1  # all but the first, and the one of a single id
    asked = {**options, "prompt_logprobs": 2}
    ours, theirs = (e.generate(text, **asked) for e in (cached, fresh))
    assert ours.prompt_logprobs == theirs.prompt_logprobs
    assert len(ours.prompt_logprobs) == 150
    assert ours.logprobs == theirs.logprobs


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_texts_of_a_transformer_stay(architecture):
    pytest.importorskip("torch")
    from forerun.models.hf import HFModel
    from models.hf_modules import module

    text = [i * 7 % 61 for i in range(80)]
    engine = Engine(HFModel(module(architecture)), prefix_memory=1 << 26)
    for length in (80, 80, 50, 70):
        solo = Engine(HFModel(module(architecture)))
        ours, theirs = (e.generate(text[:length], max_tokens=9, seed=1) for e in (engine, solo))
        assert ours.tokens == theirs.tokens
    assert engine.status().prefix_hits == 3


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("wrong", [-1, 1.5, "1G", True])
def test_bytes_that_cannot_be(wrong):
    with pytest.raises(OptionError, match="prefix_memory must be a whole number of bytes"):
        Engine(target(), prefix_memory=wrong)


def test_a_model_that_cannot_copy():
    model = target()
    model.abilities = Abilities(pages=False)
    with pytest.raises(CapabilityError, match="tabular cannot save and restore cached tokens"):
        Engine(model, prefix_memory=PLENTY)
    assert Engine(model).generate(PROMPT, max_tokens=2).finish_reason == "length"
