"""What a line may be, and what is said of one that may not."""

from __future__ import annotations

import json

import pytest

from forerun.batch import lines
from forerun.batch.lines import BadLine, parse, request
from forerun.openai.errors import ApiError

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def of_batch(**changes):
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
    return {name: value for name, value in (line | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("line", "custom_id", "url"),
    [
        (of_batch(), "a", "/v1/chat/completions"),
        (of_batch(url="/v1/completions", body={"prompt": "x"}), "a", "/v1/completions"),
        ({"prompt": "x", "seed": 3}, None, "/v1/completions"),
        ({"prompt": [1, 2], "custom_id": "é"}, "é", "/v1/completions"),
        (CHAT, None, "/v1/chat/completions"),
    ],
)
def test_forms(line, custom_id, url):
    found = parse(json.dumps(line).encode())
    assert (found.custom_id, found.url) == (custom_id, url)
    assert "custom_id" not in found.body
    assert request(found).model_dump(exclude_unset=True).items() >= found.body.items()


@pytest.mark.parametrize(
    ("raw", "code", "said"),
    [
        (b"{", "invalid_json", "not valid JSON"),
        (b'{"prompt": NaN}', "invalid_json", "NaN is no number"),
        (b"[" * 100_000, "invalid_json", "nested too deeply"),
        (b'{"prompt": "\xff"}', "invalid_utf8", "byte 0xff at position 12"),
        (b"[]", "invalid_line", "must be a JSON object"),
        ({}, "invalid_line", "either prompt or messages"),
        ({"prompt": "x", **CHAT}, "invalid_line", "either prompt or messages"),
        ({"prompt": "x", "custom_id": 3}, "invalid_custom_id", "not 3"),
        ({"prompt": "x", "custom_id": ""}, "invalid_custom_id", 'not ""'),
        (of_batch(custom_id=None), "missing_custom_id", "needs a custom_id"),
        (of_batch(method=None), "invalid_method", 'must be "POST", not null'),
        (of_batch(method="GET"), "invalid_method", 'not "GET"'),
        (of_batch(url="/v1/embeddings"), "invalid_url", 'not "/v1/embeddings"'),
        (of_batch(url=["a"]), "invalid_url", r'not \["a"'),
        (of_batch(body=[]), "invalid_body", "must be a JSON object"),
        (of_batch(body=None), "invalid_body", "must be a JSON object"),
    ],
)
def test_what_is_no_request(raw, code, said):
    with pytest.raises(BadLine, match=said) as found:
        parse(raw if isinstance(raw, bytes) else json.dumps(raw).encode())
    assert found.value.code == code


def test_the_custom_id_of_a_bad_line_is_kept():
    with pytest.raises(BadLine) as found:
        parse(json.dumps(of_batch(url="/v1/images")).encode())
    assert found.value.custom_id == "a"


def test_long_lines(monkeypatch):
    monkeypatch.setattr(lines, "LONGEST", 20)
    with pytest.raises(BadLine, match="over 20 bytes") as found:
        parse(b'{"prompt": "0123456789"}')
    assert found.value.code == "line_too_long"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": "x", "top_p": 2}, "top_p"),
        ({"prompt": "x", "temperature": "1"}, "temperature"),
        ({"prompt": "x", "stream": True}, "stream"),
        ({"prompt": "x", "best_of": 3}, "best_of"),
        ({"messages": []}, "messages"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
    ],
)
def test_bodies_are_checked_as_the_server_does(body, param):
    with pytest.raises(ApiError) as found:
        request(parse(json.dumps(body).encode()))
    assert (found.value.status, found.value.param) == (400, param)
