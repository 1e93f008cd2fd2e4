"""A paced stream looks alike whatever was accepted: chunks of one size at fixed times."""

from __future__ import annotations

import asyncio
import http.client
import json
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fakes import END, follows, letters
from forerun import Engine
from forerun.drafters import NgramDrafter
from forerun.openai.delta import Delta
from forerun.server.pacing import TEXT, fitting, paced
from server.fakes import MODEL, Serving, lively_model, parse_events, texts, writer


def chunks(server: Serving, path: str, body: dict) -> list[bytes]:
    """The chunks of the transfer encoding: what goes into one packet each."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    headers = {"content-type": "application/json"}
    connection.request("POST", path, json.dumps(body).encode(), headers)
    response = connection.getresponse()
    raw, response.fp = response.fp, None
    found = []
    while size := int(raw.readline(), 16):
        found.append(raw.read(size))
        assert raw.readline() == b"\r\n"
    raw.close()
    connection.close()
    return found


WRITTEN = "ab cd ef gh " * 12


@pytest.mark.parametrize("shown", [{}, {"logprobs": 2}, {"return_token_ids": True}])
def test_sizes_do_not_tell_what_was_accepted(serve, shown):
    ids = letters(WRITTEN)
    sizes, said = [], []
    for drafter in (None, follows([*ids, END], 1), follows([7] * 300, 1)):
        server = serve(Engine(writer(WRITTEN, 1), drafter, num_draft=6), pacing=0.004)
        body = {"prompt": [4], "max_tokens": 400, "stream": True, **shown}
        found = chunks(server, "/v1/completions", body)
        assert found.pop() == b"data: [DONE]\n\n"
        sizes.append({len(chunk) for chunk in found})
        said.append(texts(parse_events(b"".join(found))))
    assert said == [WRITTEN] * 3
    assert len(set.union(*sizes)) == 1


def test_a_chat_of_several_choices(serve):
    server = serve(Engine(lively_model(), NgramDrafter(), num_draft=3), pacing=0.002)
    fields = {"seed": 5, "n": 2, "max_tokens": 40, "logprobs": True, "return_token_ids": True}
    whole = server.chat(**fields).json
    messages = [{"role": "user", "content": "hello"}]
    found = chunks(
        server, "/v1/chat/completions",
        {"messages": messages, "stream": True, "stream_options": {"include_usage": True}, **fields},
    )  # fmt: skip
    events = parse_events(b"".join(found))
    assert len({len(chunk) for chunk in found[:-1]}) == 1
    for choice in whole["choices"]:
        parts = [c for e in events[:-1] for c in e["choices"] if c["index"] == choice["index"]]
        assert (
            "".join(p["delta"].get("content") or "" for p in parts)
            == (choice["message"]["content"])
        )
        assert [t for p in parts for t in p.get("token_ids", [])] == choice["token_ids"]
        entries = [e for p in parts if p["logprobs"] for e in p["logprobs"]["content"]]
        assert entries == choice["logprobs"]["content"]
        assert parts[-1]["finish_reason"] == choice["finish_reason"]
    assert events[-2]["usage"] == whole["usage"]
    assert all(set(event["obfuscation"]) <= {"-"} for event in events[:-1])


def test_without_pacing_nothing_is_padded(lively):
    events = lively.complete(max_tokens=9, seed=1, stream=True).events
    assert all("obfuscation" not in event for event in events[:-1])


def test_ticks_do_not_wait_for_tokens():
    """Chunks come while there is nothing to say, and what came at once is spread."""

    async def deltas():
        yield Delta(choice=0, text="x" * (3 * TEXT))
        await asyncio.sleep(0.05)
        yield Delta(choice=0, done=object())

    async def run():
        return [delta async for delta in paced(deltas(), 1, 0.005)]

    found = asyncio.run(run())
    full = [delta for delta in found if delta.text]
    assert [len(delta.text) for delta in full] == [TEXT] * 3
    assert len(found) > len(full) + 1
    assert found[-1].done is not None
    assert not found[-1].text


def test_an_error_ends_it():
    async def deltas():
        yield Delta(choice=0, text="abc")
        raise RuntimeError("out of luck")

    async def run():
        async for _ in paced(deltas(), 1, 0.001):
            pass

    with pytest.raises(RuntimeError, match="out of luck"):
        asyncio.run(run())


@given(st.text())
def test_what_fits(text):
    count = fitting(text, 20)
    assert count == len(text) or count >= 1
    head = json.dumps(text[:count], ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert len(head) - 2 <= 20 or count == 1
    if count < len(text):
        longer = json.dumps(text[: count + 1], ensure_ascii=False)
        assert len(longer.encode("utf-8", "surrogatepass")) - 2 > 20


def test_the_name_is_the_same(serve):
    server = serve(Engine(writer("ab", 1), None), pacing=0.001, models=("x" * 400, MODEL))
    found = chunks(server, "/v1/completions", {"prompt": [4], "stream": True, "max_tokens": 9})
    assert len({len(chunk) for chunk in found[:-1]}) == 1
