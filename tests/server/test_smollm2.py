"""The real model behind the server: every answer in company is the one it has alone."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from forerun import Engine
from forerun.drafters import SuffixDrafter
from forerun.models.load import load_model
from server.fakes import serving

pytestmark = pytest.mark.model

QUESTIONS = (
    "What is a prime number?",
    "Count from one to ten.",
    "Write one line of SQL that selects all of a table named dogs.",
    "Say hello.",
)


@pytest.fixture(scope="module")
def target(smollm2_path):
    return load_model(smollm2_path)


@pytest.fixture(scope="module")
def served(target):
    engine = Engine(target, SuffixDrafter(), num_draft=4, prefix_memory=32 << 20)
    with serving(engine, models=("smollm2",)) as found:
        yield found


@pytest.fixture
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def talk(question):
    return [{"role": "user", "content": question}]


def test_in_company_as_alone(served):
    """Seeded and greedy, streamed and not, at once; then each alone, without speculation."""
    asked = [(q, s) for q in QUESTIONS for s in (None, 7)]

    async def run():
        client = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)

        async def one(question, seed):
            options = {"temperature": 0} if seed is None else {"temperature": 0.8, "seed": seed}
            common = {"model": "smollm2", "messages": talk(question), "max_tokens": 16, **options}
            if seed is None:
                found = await client.chat.completions.create(**common)
                return found.choices[0].message.content
            stream = await client.chat.completions.create(**common, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

        async with client:
            return await asyncio.gather(*(one(*pair) for pair in asked))

    together = asyncio.run(run())
    alone = [
        served.chat(
            question, max_tokens=16, speculative=False,
            **({"temperature": 0} if seed is None else {"temperature": 0.8, "seed": seed}),
        ).json["choices"][0]["message"]["content"]
        for question, seed in asked
    ]  # fmt: skip
    assert together == alone


def test_the_second_turn_reads_little_again(client):
    first = client.chat.completions.create(
        model="smollm2", messages=talk("Name three colours."), max_tokens=12, temperature=0
    )
    messages = [
        *talk("Name three colours."),
        {"role": "assistant", "content": first.choices[0].message.content},
        {"role": "user", "content": "And three more."},
    ]
    second = client.chat.completions.create(
        model="smollm2", messages=messages, max_tokens=4, temperature=0
    )
    cached = second.usage.prompt_tokens_details.cached_tokens
    assert cached >= first.usage.prompt_tokens


def test_logprobs_are_those_of_plain_decoding(served):
    fields = {"prompt": "1, 2, 3, 4, 1, 2, 3, 4, 1, 2,", "max_tokens": 8, "temperature": 0,
              "logprobs": 3, "echo": True}  # fmt: skip
    on = served.complete(**fields).json
    off = served.complete(**fields, speculative=False).json
    assert on["choices"] == off["choices"]
    assert on["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] > 0


def test_a_schema(served):
    schema = {
        "type": "object", "properties": {"prime": {"type": "boolean"}}, "required": ["prime"],
        "additionalProperties": False,
    }  # fmt: skip
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    found = served.chat(
        "Is seven a prime number?", temperature=0, max_tokens=40, response_format=wanted
    ).json["choices"][0]
    assert isinstance(json.loads(found["message"]["content"])["prime"], bool)
    assert found["finish_reason"] == "stop"
