"""Answers over the deaths of who writes them: what runs without Ray.

Replicas are real engines over small models; `Says` loses one after so many items.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time

import pytest

from cluster.fakes import Front, replica
from engine.fakes import END, follows, letters, writes
from forerun import Engine
from forerun.cluster import relay
from forerun.cluster.calls import Maker
from forerun.drafters import ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.engine import Completion
from forerun.openai.errors import ApiError, overloaded
from server.fakes import lively_model

OPTIONS = {"max_tokens": 24, "min_tokens": 20, "seed": 11, "frequency_penalty": 0.3}
DRAFTERS = (NgramDrafter, lambda: ModelDrafter(lively_model()), SuffixDrafter, lambda: None)


def engines(model=lively_model, drafters=DRAFTERS):
    return [Engine(model(), make(), num_draft=3) for make in drafters]


async def told(front, prompts, n=1, streamed=True, **options):
    """(pieces by choice, completions); the relay has been left."""
    async with front.relay() as one:
        await one.submit(prompts, n, options, ("prompt", "seed"))
        if not streamed:
            return {}, await one.finished()
        pieces, whole = {}, {}
        async for number, piece in one.progress():
            if isinstance(piece, Completion):
                whole[number] = piece
            else:
                pieces.setdefault(number, []).append(piece)
        return pieces, [whole[i] for i in range(len(whole))]


def alone(prompts, n=1, model=lively_model, **options):
    engine = Engine(model())
    return list(
        itertools.chain(*(engine.generate_choices(prompt, n, **options) for prompt in prompts))
    )


def same(pieces, found, expected):
    assert len(found) == len(expected)
    for i, (done, whole) in enumerate(zip(found, expected)):
        assert (done.tokens, done.text) == (whole.tokens, whole.text)
        assert (done.finish_reason, done.choice) == (whole.finish_reason, whole.choice)
        assert (done.usage, done.seed) == (whole.usage, whole.seed)
        assert (done.logprobs, done.prompt_logprobs) == (whole.logprobs, whole.prompt_logprobs)
        assert tuple(itertools.chain(*(r.tokens for r in done.trace))) == whole.tokens
        assert done.stats.tokens == len(whole.tokens)
        indices = [record.index for record in done.trace]
        assert sorted(set(indices)) == indices
        if pieces:
            mine = pieces.get(i, [])
            assert "".join(piece.text for piece in mine) == whole.text
            assert tuple(itertools.chain(*(piece.tokens for piece in mine))) == whole.tokens


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("items", range(1, 26, 3))
def test_the_answer_is_that_of_one_process(items, streamed):
    with replica(engines()) as replicas:
        front = Front(replicas, losses=[items, 2, items + 1])
        found = asyncio.run(told(front, ["hello"], streamed=streamed, logprobs=1, **OPTIONS))
        same(*found, alone(["hello"], logprobs=1, **OPTIONS))
        assert len(front.calls) > 1


@pytest.mark.parametrize("items", [1, 7, 20, 40, 60])
def test_each_choice_goes_on_behind_its_own_tokens(items):
    prompts, options = ["hello", "a", "b, c"], {**OPTIONS, "prompt_logprobs": 1}
    with replica(engines()) as replicas:
        front = Front(replicas, losses=[items, items])
        found = asyncio.run(told(front, prompts, 3, **options))
        same(*found, alone(prompts, 3, **options))
        left = [call.left for call in front.calls]
        assert left[0] is None
        assert set(left[1]) <= set(range(9))
        for number, resume in left[1].items():
            assert (resume.choice, resume.seed) == (number % 3, 11)
            assert resume.epoch == (1 if resume.output else 0)


@pytest.mark.parametrize("items", range(1, 14, 2))
def test_characters_and_stop_strings_are_cut_through(items):
    ids = letters("xa🦊🦊bx🦊bc")
    made = [
        Engine(writes(ids, 1), make(), num_draft=2)
        for make in (lambda: None, lambda: follows([*ids, END], 1), NgramDrafter)
    ]
    with replica(made) as replicas:
        options = {"max_tokens": 40, "temperature": 0, "seed": 1, "stop": ["🦊bc", "zz"]}
        front = Front(replicas, losses=[items, 3])
        _, (done,) = found = asyncio.run(told(front, ["?"], **options))
        assert done.text == "xa🦊🦊bx"
        same(*found, alone(["?"], model=lambda: writes(ids, 1), **options))


def test_unseeded_ones_toss_new_coins():
    with replica(engines()) as replicas:
        front = Front(replicas, losses=[4, 4])
        options = {"max_tokens": 40, "verifier": "rejection", "min_tokens": 40}
        _, (done,) = asyncio.run(told(front, ["hello"], **options))
        assert len(done.tokens) == 40
        seeds = {call.left[0].seed for call in front.calls[1:]}
        assert seeds == {done.seed}
        assert [call.left[0].epoch for call in front.calls[1:]] == [1, 2]
        sent = [call.left[0].output for call in front.calls[1:]]
        assert 0 < len(sent[0]) < len(sent[1]) < 40
        assert done.tokens[: len(sent[1])] == sent[1]
        assert sent[1][: len(sent[0])] == sent[0]


BOUND = {**OPTIONS, "verifier": "rejection", "num_draft": 3}


def test_a_seed_that_hangs_on_rounds_ends_in_an_error_once_something_was_sent():
    made = engines(drafters=(NgramDrafter,) * 3)
    with replica(made) as replicas:
        front = Front(replicas, losses=[5])
        with pytest.raises(
            ApiError, match="a replica died, and resume: under verifier 'rejec"
        ) as e:
            asyncio.run(told(front, ["hello"], **BOUND))
        assert e.value.status == 500
        whole = made[2].submit("hello", **BOUND)
        whole.wait()
        for losses, streamed in (([1], True), ([5], False), ([9, 1], False)):
            front = Front(replicas, losses=losses)
            _, (done,) = asyncio.run(told(front, ["hello"], streamed=streamed, **BOUND))
            assert done.tokens == whole.done.tokens
            assert len(front.calls) > len(losses)


def test_a_request_that_kills_is_given_up():
    with replica(engines()) as replicas:
        for losses in ([0] * 4, [3] * 4):
            front = Front(replicas, losses=losses)
            with pytest.raises(ApiError, match="4 replicas died while they wrote this answer"):
                asyncio.run(told(front, ["hello"], **OPTIONS))
            assert len(front.calls) == 4


def test_another_path_is_told(caplog):
    with replica(engines(), paths=["forerun-1-avx2", "forerun-1-neon"]) as replicas:
        front = Front(replicas, losses=[4])

        async def go():
            async with front.relay() as one:
                await one.submit(["hello"], 1, dict(OPTIONS), ())
                return [one.maker async for _ in one.progress()]

        with caplog.at_level(logging.WARNING, logger="forerun.server"):
            makers = asyncio.run(go())
        assert list(dict.fromkeys(makers)) == ["forerun-1-avx2", "forerun-1-avx2+forerun-1-neon"]
        said = {r.getMessage(): r.fields for r in caplog.records}
        assert said["replica_lost"]["times"] == 1
        assert said["replica_lost"]["tokens"] > 0
        assert said["path_changed"] == {"before": "forerun-1-avx2", "now": "forerun-1-neon"}


def test_no_answer_is_of_two_models():
    with replica(engines(), models=["old", "new", "new"]) as replicas:
        with pytest.raises(ApiError, match="the model was changed while it wrote") as error:
            asyncio.run(told(Front(replicas, losses=[4]), ["hello"], **OPTIONS))
        assert error.value.status == 503
        found = asyncio.run(told(Front(replicas, losses=[1]), ["hello"], **OPTIONS))
        same(*found, alone(["hello"], **OPTIONS))
        other = Maker(path="p", model="old", vocabulary="others")
        with pytest.raises(ApiError, match="the model is being changed") as error:
            asyncio.run(told(Front(replicas, own=other), ["hello"], **OPTIONS))
        assert error.value.status == 429


def test_refusals_are_the_clients_at_first_and_waited_out_later(monkeypatch):
    monkeypatch.setattr(relay, "BREATH", 0.01)
    with replica(engines()) as replicas:
        full = overloaded("512 requests wait")
        with pytest.raises(ApiError, match="512 requests wait"):
            asyncio.run(told(Front(replicas, says={0: full}), ["hello"], **OPTIONS))
        with pytest.raises(ApiError, match="resume takes") as error:
            asyncio.run(told(Front(replicas), ["hello"], resume=3, **OPTIONS))
        assert error.value.status == 400
        front = Front(replicas, losses=[4], says={1: full, 2: ApiError(503, "it goes down")})
        same(*asyncio.run(told(front, ["hello"], **OPTIONS)), alone(["hello"], **OPTIONS))
        assert len(front.calls) == 4


def test_time_is_up_over_all_replicas():
    slow = [Engine(lively_model(0.02)) for _ in range(3)]
    with replica(slow) as replicas:
        front = Front(replicas, losses=[3, 3], timeout=1.0)
        begun = time.monotonic()
        with pytest.raises(ApiError, match="the time limit of 1 s is over") as error:
            asyncio.run(told(front, ["hello"], max_tokens=4000, min_tokens=4000))
        assert error.value.status == 408
        assert error.value.headers["x-should-retry"] == "false"
        seconds = [call.seconds for call in front.calls]
        assert seconds == sorted(seconds, reverse=True)
        assert all(left <= 1 for left in seconds)
        assert time.monotonic() > begun + 1


def test_who_leaves_is_not_written_for():
    slow = [Engine(lively_model(0.01))]
    with replica(slow) as replicas:
        front = Front(replicas)

        async def go():
            async with front.relay() as one:
                await one.submit(["hello"], 2, {"max_tokens": 4000, "min_tokens": 4000}, ())
                async for _ in one.progress():
                    break
            for _ in range(1000):
                status = slow[0].status()
                if not (status.running or status.waiting or status.reading):
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("it is still written")

        asyncio.run(go())
        text = front.metrics.text().decode()
        assert 'forerun_requests_finished_total{finish_reason="cancelled"} 2.0' in text


def test_each_token_counts_once():
    with replica(engines()) as replicas:
        front = Front(replicas, losses=[4, 4])
        _, (done,) = asyncio.run(told(front, ["hello"], **OPTIONS))
        text = front.metrics.text().decode()
        assert f"forerun_generation_tokens_total {len(done.tokens)}.0" in text
        assert f'forerun_requests_finished_total{{finish_reason="{done.finish_reason}"}} 1' in text
        assert "forerun_time_to_first_token_seconds_count 1.0" in text
        assert done.admitted <= done.ended <= time.monotonic()
