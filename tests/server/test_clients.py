"""Clients that people have: OpenAI's own, and curl."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess

import openai
import pytest

from engine.fakes import TOKENS
from forerun import Engine
from forerun.drafters import NgramDrafter
from server.fakes import MODEL, lively_model, until, writer

TALK = [{"role": "user", "content": "hello"}]


@pytest.fixture
def client(lively):
    with openai.OpenAI(base_url=f"{lively.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "forerun"
    with pytest.raises(openai.NotFoundError, match="nope"):
        client.models.retrieve("nope")


def test_completions(client, lively):
    found = client.completions.create(
        model=MODEL, prompt="hello", max_tokens=20, seed=3, logprobs=2, n=2, extra_body={"top_k": 5}
    )
    assert len(found.choices) == 2
    assert found.usage.completion_tokens == sum(len(c.logprobs.tokens) for c in found.choices)
    assert found.usage.prompt_tokens_details.cached_tokens >= 0
    streamed = client.completions.create(
        model=MODEL, prompt="hello", max_tokens=20, seed=3, extra_body={"top_k": 5}, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == found.choices[0].text


def test_chat(client):
    options = {"model": MODEL, "messages": TALK, "max_completion_tokens": 30, "seed": 4}
    found = client.chat.completions.create(**options, logprobs=True, top_logprobs=3)
    message = found.choices[0].message
    assert message.role == "assistant"
    assert len(found.choices[0].logprobs.content) == found.usage.completion_tokens
    details = found.usage.completion_tokens_details
    assert details.accepted_prediction_tokens == details.rejected_prediction_tokens == 0
    said, usage = "", None
    stream = client.chat.completions.create(
        **options, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage
        for choice in chunk.choices:
            said += choice.delta.content or ""
    assert said == message.content
    assert usage == found.usage


def test_async(lively):
    async def run():
        client = openai.AsyncOpenAI(base_url=f"{lively.url}/v1", api_key="none", max_retries=0)
        async with client:
            one = client.chat.completions.create(model=MODEL, messages=TALK, max_tokens=20, seed=5)
            stream = await client.chat.completions.create(
                model=MODEL, messages=TALK, max_tokens=20, seed=5, stream=True
            )
            said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            return (await one).choices[0].message.content, "".join(said)

    whole, streamed = asyncio.run(run())
    assert whole == streamed != ""


def test_errors(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model=MODEL, prompt="hello", temperature=-1)
    assert refused.value.param == "temperature"
    assert refused.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="gpt", prompt="hello")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="tools is not supported"):
        client.chat.completions.create(
            model=MODEL, messages=TALK,
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        )  # fmt: skip


def test_keys(serve):
    server = serve(Engine(lively_model(), None), api_keys=("right",))
    for key, known in (("right", True), ("wrong", False)):
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            if known:
                assert client.models.list().data[0].id == MODEL
            else:
                with pytest.raises(openai.AuthenticationError):
                    client.models.list()


def test_a_stream_that_is_left(serve):
    engine = Engine(writer("x" * 5000, 1, seconds=0.002), None)
    server = serve(engine)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.completions.create(model=MODEL, prompt=[4], max_tokens=5000, stream=True)
        next(iter(stream))
        stream.close()
        until(lambda: engine.status().running == 0, 5)


def test_an_error_in_mid_stream(serve):
    from server.test_errors import broken

    server = serve(Engine(broken(10), None))
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.completions.create(model=MODEL, prompt=[4], max_tokens=40, stream=True)
        said = []
        with pytest.raises(openai.APIError):
            said.extend(chunk.choices[0].text for chunk in stream)
        assert "".join(said) == "a" * len(said) != ""


def test_predicted_outputs(serve):
    prompt = TOKENS.encode_chat(TALK)
    text = "one two three four five six seven"
    server = serve(Engine(writer(text, len(prompt)), NgramDrafter(), num_draft=4))
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        found = client.chat.completions.create(
            model=MODEL, messages=TALK, temperature=0, seed=1,
            prediction={"type": "content", "content": text},
        )  # fmt: skip
    assert found.choices[0].message.content == text
    assert found.usage.completion_tokens_details.accepted_prediction_tokens > 20
    assert found.usage.completion_tokens_details.rejected_prediction_tokens >= 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(lively):
    def curl(path, *args):
        command = ["curl", "-sS", "--max-time", "20", f"{lively.url}{path}", *args]
        found = subprocess.run(command, capture_output=True, timeout=30, check=True)
        return found.stdout

    kind = ("-H", "Content-Type: application/json", "-d")
    assert json.loads(curl("/health")) == {"status": "ok"}
    body = json.dumps({"prompt": "hello", "max_tokens": 9, "seed": 1})
    whole = json.loads(curl("/v1/completions", *kind, body))
    streamed = curl("/v1/completions", "-N", *kind, body[:-1] + ', "stream": true}').decode()
    assert streamed.endswith("data: [DONE]\n\n")
    parts = [json.loads(line[6:]) for line in streamed.split("\n\n")[:-2]]
    assert "".join(part["choices"][0]["text"] for part in parts) == whole["choices"][0]["text"]
    tokens = json.loads(curl("/tokenize", *kind, '{"prompt": "hello"}'))
    assert tokens["tokens"] == TOKENS.encode("hello")
