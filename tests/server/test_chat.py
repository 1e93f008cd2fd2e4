"""`/v1/chat/completions` says what the engine says to the conversation in the model's template."""

from __future__ import annotations

import pytest

from engine.fakes import TOKENS
from forerun import Engine
from forerun.drafters import NgramDrafter
from server.fakes import lively_model, texts, writer

TALK = [
    {"role": "system", "content": "you are brief"},
    {"role": "user", "content": "hello"},
]


def solo(messages=TALK, **options):
    return Engine(lively_model(), NgramDrafter(), num_draft=3).generate(messages, **options)


def test_an_answer(lively):
    done = solo(seed=7, max_tokens=40)
    found = lively.chat(TALK, seed=7, max_tokens=40, return_token_ids=True).json
    assert found["object"] == "chat.completion"
    assert found["id"].startswith("chatcmpl-")
    choice = found["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": done.text, "refusal": None}
    assert choice["finish_reason"] == done.finish_reason
    assert choice["token_ids"] == list(done.tokens)
    assert found["prompt_token_ids"] == TOKENS.encode_chat(TALK) == list(done.prompt)
    assert found["usage"]["prompt_tokens"] == len(done.prompt)
    assert choice["logprobs"] is None


def test_both_names_of_the_limit(lively):
    for fields in ({"max_tokens": 5}, {"max_completion_tokens": 5},
                   {"max_tokens": 9, "max_completion_tokens": 5}):  # fmt: skip
        found = lively.chat(seed=8, min_tokens=5, **fields).json
        assert found["usage"]["completion_tokens"] == 5
        assert found["choices"][0]["finish_reason"] == "length"


def test_contents_in_parts(lively):
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    message = [{"role": "user", "content": parts}]
    plain = [{"role": "user", "content": "hel\nlo"}]
    assert (
        lively.chat(message, seed=1, max_tokens=9).json["choices"]
        == lively.chat(plain, seed=1, max_tokens=9).json["choices"]
    )


def test_logprobs(lively):
    done = solo(seed=9, max_tokens=12, logprobs=2)
    fields = {"seed": 9, "max_tokens": 12, "logprobs": True}
    shown = lively.chat(TALK, top_logprobs=2, **fields).json["choices"][0]["logprobs"]
    assert shown["refusal"] is None
    for entry, expected in zip(shown["content"], done.logprobs, strict=True):
        assert entry["token"] == TOKENS.token_text(expected.token)
        assert entry["logprob"] == expected.logprob
        assert entry["bytes"] == (list(TOKENS.token_bytes(expected.token)) or None)
        assert [(t["token"], t["logprob"]) for t in entry["top_logprobs"]] == [
            (TOKENS.token_text(i), p) for i, p in expected.top
        ]
    bare = lively.chat(TALK, **fields).json["choices"][0]["logprobs"]["content"]
    assert [e["top_logprobs"] for e in bare] == [[]] * len(done.tokens)


def test_choices(lively):
    found = lively.chat(TALK, seed=2, n=3, max_tokens=24).json
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2]
    said = [choice["message"]["content"] for choice in found["choices"]]
    assert said[0] == solo(seed=2, max_tokens=24).text
    assert len(set(said)) == 3
    assert found["usage"]["prompt_tokens"] == len(TOKENS.encode_chat(TALK))
    events = lively.chat(TALK, seed=2, n=3, max_tokens=24, stream=True).events
    streamed = dict.fromkeys(range(3), "")
    for event in events[:-1]:
        for choice in event["choices"]:
            streamed[choice["index"]] += choice["delta"].get("content") or ""
    assert list(streamed.values()) == said


def test_a_stream(lively):
    whole = lively.chat(TALK, seed=6, max_tokens=30).json
    options = {"include_usage": True}
    events = lively.chat(TALK, seed=6, max_tokens=30, stream=True, stream_options=options).events
    assert events[0]["object"] == "chat.completion.chunk"
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert texts(events) == whole["choices"][0]["message"]["content"]
    assert events[-3]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert events[-3]["choices"][0]["delta"] == {}
    assert events[-2]["usage"] == whole["usage"]
    assert events[-1] == "[DONE]"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ([{"role": "user"}], None),
        ([{"role": "nobody", "content": "a"}], None),
        ([{"content": "a"}], "messages"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "messages"),
        ([{"role": "assistant", "content": "", "tool_calls": [{"id": "x"}]}], "messages"),
        ("hello", "messages"),
    ],
)
def test_messages_that_cannot_be_used(lively, messages, param):
    found = lively.ask("/v1/chat/completions", {"messages": messages})
    assert found.status == 400
    assert found.error["param"] == param


def test_a_template_that_refuses_or_fails(serve):
    model = writer("ab", 1)
    model.tokenizer = TOKENS.__class__(TOKENS._vocabulary)
    for template, said in (
        ("{{ raise_exception('no system message here') }}", "no system message here"),
        ("{{ messages.nothing.at.all }}", "fails on these messages"),
        ("{{ ''.__class__.__mro__ }}", "chat template"),  # the sandbox
        ("{% for %}", "not valid jinja2"),
    ):
        model.tokenizer = _with_template(template)
        server = serve(Engine(model, None))
        found = server.chat("a")
        assert found.status == 400
        assert said in found.error["message"]


def _with_template(template):
    import dataclasses

    return TOKENS.__class__(dataclasses.replace(TOKENS._vocabulary, chat_template=template))
