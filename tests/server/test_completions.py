"""`/v1/completions` says what the engine says."""

from __future__ import annotations

import json
import math

import pytest

from engine.fakes import END, TOKENS, cheap, letters
from forerun import Engine
from forerun.drafters import (
    HybridDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SuffixDrafter,
)
from server.fakes import lively_model, texts, writer


def solo(prompt="hello", **options):
    return Engine(lively_model(), NgramDrafter(), num_draft=3).generate(prompt, **options)


def test_a_seeded_text_is_the_engines_own(lively):
    done = solo(seed=7, max_tokens=40)
    found = lively.complete(seed=7, max_tokens=40, return_token_ids=True).json
    assert found["object"] == "text_completion"
    assert found["id"].startswith("cmpl-")
    assert found["model"] == "tiny"
    choice = found["choices"][0]
    assert choice["text"] == done.text
    assert choice["finish_reason"] == done.finish_reason
    assert choice["token_ids"] == list(done.tokens)
    assert choice["prompt_token_ids"] == list(done.prompt)
    assert choice["logprobs"] is None
    usage = found["usage"]
    assert {k: usage[k] for k in done.usage if k in usage} == {
        k: v for k, v in done.usage.items() if k in usage
    }


def test_sixteen_tokens_where_nothing_is_said(lively):
    found = lively.complete(seed=3, logit_bias={str(END): -1000}).json
    assert found["usage"]["completion_tokens"] == 16
    assert found["choices"][0]["finish_reason"] == "length"


def test_sampling_fields_reach_the_law(lively):
    fields = {
        "temperature": 0.7, "top_p": 0.8, "top_k": 5, "min_p": 0.05, "presence_penalty": 0.5,
        "frequency_penalty": 0.25, "repetition_penalty": 1.2, "min_tokens": 3, "seed": 11,
    }  # fmt: skip
    found = lively.complete(max_tokens=30, **fields).json["choices"][0]
    assert found["text"] == solo(max_tokens=30, **fields).text
    plain = solo(max_tokens=30, seed=11, min_tokens=3).text
    assert found["text"] != plain  # the fields did something
    biased = lively.complete(temperature=0, max_tokens=3, logit_bias={str(4 + ord("b")): 1e5}).json
    assert biased["choices"][0]["text"] == "bbb"


def test_top_k_of_minus_one_is_off_and_seeds_may_be_negative(lively):
    assert (
        lively.complete(seed=-1, top_k=-1, max_tokens=20).json["choices"][0]["text"]
        == solo(seed=2**64 - 1, max_tokens=20).text
    )


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("hello", [TOKENS.encode("hello")]),
        (["hello", "ab"], [TOKENS.encode("hello"), TOKENS.encode("ab")]),
        ([4, 5, 6], [[4, 5, 6]]),
        ([[4, 5], [6]], [[4, 5], [6]]),
    ],
)
def test_prompts_of_all_kinds(lively, prompt, ids):
    found = lively.complete(prompt, seed=5, max_tokens=8, return_token_ids=True, n=2).json
    choices = found["choices"]
    assert [c["index"] for c in choices] == list(range(2 * len(ids)))
    assert [c["prompt_token_ids"] for c in choices[::2]] == ids
    assert found["usage"]["prompt_tokens"] == sum(map(len, ids))
    assert found["usage"]["completion_tokens"] == sum(len(c["token_ids"]) for c in choices)
    for i, one in enumerate(ids):
        assert choices[2 * i]["text"] == solo(one, seed=5, max_tokens=8).text


def test_logprobs_name_tokens_by_id(lively):
    fields = {"seed": 7, "max_tokens": 6, "logprobs": 3, "return_token_ids": True}
    [by_text] = lively.complete(**fields).json["choices"]
    [by_id] = lively.complete(**fields, return_tokens_as_token_ids=True).json["choices"]
    ids = by_id["token_ids"]
    assert by_id["logprobs"]["tokens"] == [f"token_id:{i}" for i in ids]
    assert all(name.startswith("token_id:") for top in by_id["logprobs"]["top_logprobs"]
               for name in top)  # fmt: skip
    for one, other in zip(by_text["logprobs"]["top_logprobs"], by_id["logprobs"]["top_logprobs"]):
        assert sorted(one.values()) == sorted(other.values())
    for key in ("token_logprobs", "text_offset"):
        assert by_text["logprobs"][key] == by_id["logprobs"][key]


def test_echo_and_logprobs_as_lm_eval_reads_them(lively):
    """Prompts as ids, echo, one logprob, and one token that nobody reads."""
    ids = [TOKENS.encode("hello a"), TOKENS.encode("bcd,")]
    found = lively.complete(ids, echo=True, logprobs=1, max_tokens=1, temperature=0, seed=1234).json
    for choice, prompt in zip(found["choices"], ids, strict=True):
        shown = choice["logprobs"]
        assert choice["text"].startswith(TOKENS.decode(prompt))
        assert len(shown["tokens"]) == len(prompt) + 1
        assert shown["token_logprobs"][0] is None
        assert shown["top_logprobs"][0] is None
        for token, top in zip(shown["token_logprobs"][1:], shown["top_logprobs"][1:], strict=True):
            assert token <= max(top.values())  # greedy where equal
        assert shown["token_logprobs"][-1] == max(shown["top_logprobs"][-1].values())
        done = solo(prompt, temperature=0, max_tokens=1, logprobs=1, prompt_logprobs=1)
        expected = [None, *(e.logprob for e in (*done.prompt_logprobs[1:], *done.logprobs))]
        clamped = [e if e is None else max(e, -9999.0) for e in expected]
        assert shown["token_logprobs"] == clamped
        starts = shown["text_offset"]
        assert [choice["text"][a:b] for a, b in zip(starts, [*starts[1:], None])] == shown["tokens"]


def test_nothing_is_written_where_max_tokens_is_zero(lively):
    found = lively.complete("hello", echo=True, logprobs=0, max_tokens=0).json
    choice = found["choices"][0]
    assert choice["text"] == "hello"
    assert len(choice["logprobs"]["tokens"]) == len(TOKENS.encode("hello"))
    assert found["usage"]["completion_tokens"] == 0
    assert lively.complete("hello", max_tokens=0).status == 400
    assert lively.complete("hello", echo=True, max_tokens=0).json["choices"][0]["text"] == "hello"


def test_logprobs_of_the_answer(lively):
    done = solo(seed=9, max_tokens=12, logprobs=3)
    choice = lively.complete(seed=9, max_tokens=12, logprobs=3).json["choices"][0]
    shown = choice["logprobs"]
    assert shown["token_logprobs"] == [e.logprob for e in done.logprobs]
    assert all(3 <= len(top) <= 4 for top in shown["top_logprobs"])
    for token, logprob, top in zip(
        shown["tokens"], shown["token_logprobs"], shown["top_logprobs"], strict=True
    ):
        assert top[token] == logprob
    assert shown["text_offset"][0] == 0


def test_the_end_token_has_its_entry_and_no_text(serve):
    server = serve(Engine(writer("ab", 1), None))
    choice = server.complete([4], logprobs=0, max_tokens=9).json["choices"][0]
    assert choice["text"] == "ab"
    assert choice["logprobs"]["tokens"] == ["a", "b", "<|im_end|>"]
    assert choice["logprobs"]["text_offset"] == [0, 1, 2]


def test_choices_come_from_one_seed_and_differ(lively):
    found = lively.complete(seed=2, n=4, max_tokens=24).json["choices"]
    assert found[0]["text"] == solo(seed=2, max_tokens=24).text
    assert len({choice["text"] for choice in found}) == 4
    again = lively.complete(seed=2, n=4, max_tokens=24).json["choices"]
    assert again == found


def test_unseeded_requests_differ(lively):
    found = {lively.complete(max_tokens=24).json["choices"][0]["text"] for _ in range(3)}
    assert len(found) == 3


def test_statistics_and_trace(lively):
    found = lively.complete("ab ab ab ab", seed=4, max_tokens=40, trace=True).json
    rounds = found["choices"][0]["trace"]
    drafted = [r for r in rounds if r["drafted"]]
    stats = found["metrics"]["speculative_decoding"]
    assert stats["num_spec_steps"] == len(drafted) > 0
    assert stats["num_draft_tokens"] == sum(len(r["drafted"]) for r in drafted)
    accepted = sum(d["accepted"] for r in drafted for d in r["drafted"])
    assert stats["num_accepted_draft_tokens"] == accepted
    assert sum(stats["acceptance_histogram"]) == len(drafted)
    assert sum(j * c for j, c in enumerate(stats["acceptance_histogram"])) == accepted
    assert math.isclose(stats["mean_acceptance_length"], 1 + accepted / len(drafted))
    assert stats["num_spec_tokens"] == 3
    assert sum(len(r["tokens"]) for r in rounds) == found["usage"]["completion_tokens"]
    assert "trace" not in lively.complete(seed=4).json["choices"][0]


def test_speculation_can_be_switched_off_and_changes_nothing(lively):
    on = lively.complete("ab ab ab", seed=4, max_tokens=40).json
    for fields in ({"speculative": False}, {"num_draft": 0}, {"drafter": "none"}):
        off = lively.complete("ab ab ab", seed=4, max_tokens=40, **fields).json
        assert off["choices"] == on["choices"]
        assert off["metrics"]["speculative_decoding"]["num_draft_tokens"] == 0
    assert on["metrics"]["speculative_decoding"]["num_draft_tokens"] > 0


def test_a_drafter_for_each_request(serve):
    text = "one two three one two three one two three"
    ids = letters(text)
    drafter = HybridDrafter([SuffixDrafter(), ModelDrafter(cheap(writer(text, 1)))])
    server = serve(Engine(writer(text, 1), drafter, num_draft=4))
    for name in ("suffix", "model", "suffix+model", None):
        fields = {} if name is None else {"drafter": name}
        choice = server.complete([4], max_tokens=99, trace=True, **fields).json["choices"][0]
        assert choice["text"] == text
        used = {r["drafter"] for r in choice["trace"] if r["drafted"]}
        assert used
        assert used <= set((name or "suffix+model").split("+"))
    assert server.complete([4], drafter="ngram").status == 400
    assert len(ids) == len(text)


@pytest.mark.parametrize("drafter", [None, NgramDrafter()])
def test_a_prediction_is_drafted_and_counted(serve, drafter):
    """What it had right is accepted, what it had wrong is rejected; neither changes the text."""
    text = "one two three four five six seven"
    server = serve(Engine(writer(text, 1), drafter, num_draft=4))
    wrong = text.replace("four", "4")
    for content in (text, wrong, [{"type": "text", "text": text}], "", "something else"):
        prediction = {"type": "content", "content": content}
        found = server.complete([4], max_tokens=99, trace=True, prediction=prediction).json
        assert found["choices"][0]["text"] == text
        details = found["usage"]["completion_tokens_details"]
        rounds = [r for r in found["choices"][0]["trace"] if r.get("drafter") == "prediction"]
        drafted = [d["accepted"] for r in rounds for d in r["drafted"]]
        assert details["accepted_prediction_tokens"] == sum(drafted)
        assert details["rejected_prediction_tokens"] == len(drafted) - sum(drafted)
        if content == text:
            assert sum(drafted) > 20
        if content == "":
            assert drafted == []
    own = Engine(writer(text, 1), PredictionDrafter(letters(text)), num_draft=4)  # the server's
    found = serve(own).complete([4], max_tokens=99, trace=True).json
    assert {r["drafter"] for r in found["choices"][0]["trace"] if r["drafted"]} == {"prediction"}
    counted = found["usage"]["completion_tokens_details"]
    assert counted["accepted_prediction_tokens"] == counted["rejected_prediction_tokens"] == 0
    off = server.complete([4], prediction={"type": "content", "content": text}, speculative=False)
    assert off.json["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] == 0


def test_stops(serve):
    server = serve(Engine(writer("one two three", 1), NgramDrafter(), num_draft=3))
    for stop, text in (("two", "one "), (["three", "wo"], "one t"), ([], "one two three")):
        choice = server.complete([4], stop=stop, max_tokens=40).json["choices"][0]
        assert choice["text"] == text
        assert choice["finish_reason"] == "stop"
    assert (
        server.complete([4], stop_token_ids=letters("w"), max_tokens=40).json["choices"][0]["text"]
        == "one t"
    )


def test_stream_with_usage(lively):
    whole = lively.complete(seed=6, max_tokens=30).json
    plain = lively.complete(seed=6, max_tokens=30, stream=True)
    assert plain.headers["content-type"].startswith("text/event-stream")
    assert plain.headers["cache-control"] == "no-cache"
    assert plain.events[-1] == "[DONE]"
    assert all("usage" not in event for event in plain.events[:-1])
    assert texts(plain.events) == whole["choices"][0]["text"]
    options = {"include_usage": True}
    events = lively.complete(seed=6, max_tokens=30, stream=True, stream_options=options).events
    assert all(event["usage"] is None for event in events[:-2])
    assert events[-2]["choices"] == []
    assert events[-2]["usage"] == whole["usage"]
    assert events[-2]["metrics"] == whole["metrics"]
    assert len({event["id"] for event in events[:-1]}) == 1
    reasons = [event["choices"][0]["finish_reason"] for event in events[:-2]]
    assert reasons[-1] == whole["choices"][0]["finish_reason"]
    assert not any(reasons[:-1])


def test_floats_survive_json(lively):
    """What is compared bit for bit is what the engine computed."""
    entry = solo(seed=9, max_tokens=1, logprobs=1).logprobs[0]
    shown = lively.complete(seed=9, max_tokens=1, logprobs=1)
    assert json.loads(shown.body)["choices"][0]["logprobs"]["token_logprobs"] == [entry.logprob]


def test_no_top_p_is_the_likeliest_token(lively):
    assert (
        lively.complete(top_p=0, max_tokens=20).json["choices"]
        == lively.complete(temperature=0, max_tokens=20).json["choices"]
    )
