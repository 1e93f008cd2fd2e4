"""A line as a request: OpenAI's batch format, or a body alone.

    {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": …}}
    {"prompt": "Once upon a time", "max_tokens": 64}
    {"messages": [{"role": "user", "content": "Hello"}], "custom_id": "b"}

The second and third are bodies of /v1/completions and /v1/chat/completions, with a `custom_id` or
without. What is wrong with a body is answered as the server would (ApiError); what is no request at
all is a `BadLine`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ValidationError

from forerun.batch.source import LONGEST
from forerun.openai.errors import ApiError, invalid
from forerun.openai.requests import ChatRequest, CompletionRequest

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_BODIES: dict[str, type[ChatRequest] | type[CompletionRequest]] = {
    CHAT: ChatRequest,
    COMPLETIONS: CompletionRequest,
}


class BadLine(Exception):
    """No request. `code` names why, for programs; the message says what would be right."""

    def __init__(self, code: str, message: str, custom_id: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.custom_id = code, message, custom_id


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a line asks of which endpoint; the body is not looked at yet."""

    custom_id: str | None
    url: str
    body: dict[str, Any]


def parse(raw: bytes) -> Line:
    """BadLine for what is none of the three forms."""
    found = _object(raw)
    custom_id = found.get("custom_id")
    if custom_id is not None and not (isinstance(custom_id, str) and custom_id):
        raise BadLine(
            "invalid_custom_id", f"custom_id must be a text of at least one letter, not "
            f"{json.dumps(custom_id)[:80]}",
        )  # fmt: skip
    if "body" in found or "url" in found or "method" in found:
        return _of_batch(found, custom_id)
    if ("prompt" in found) == ("messages" in found):
        raise BadLine(
            "invalid_line", "a line has either prompt or messages, or, in OpenAI's batch format, "
            "custom_id, method, url and body", custom_id,
        )  # fmt: skip
    body = {name: value for name, value in found.items() if name != "custom_id"}
    return Line(custom_id=custom_id, url=COMPLETIONS if "prompt" in found else CHAT, body=body)


def request(line: Line) -> ChatRequest | CompletionRequest:
    """The body, checked as the server checks it. ApiError says what is wrong with it."""
    try:
        found = _BODIES[line.url].model_validate_json(json.dumps(line.body))
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False)) from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
    if found.stream:
        raise ApiError(400, "stream is not for batches: leave it out", param="stream")
    found.check_supported()
    return found


def _of_batch(found: dict[str, Any], custom_id: str | None) -> Line:
    if custom_id is None:
        raise BadLine("missing_custom_id", "a line in OpenAI's batch format needs a custom_id")
    if found.get("method") != "POST":
        said = json.dumps(found.get("method"))[:80]
        raise BadLine("invalid_method", f'method must be "POST", not {said}', custom_id)
    if (url := found.get("url")) not in (CHAT, COMPLETIONS):
        said = json.dumps(url)[:80]
        raise BadLine("invalid_url", f"url must be {CHAT} or {COMPLETIONS}, not {said}", custom_id)
    if not isinstance(body := found.get("body"), dict):
        raise BadLine("invalid_body", "body must be a JSON object", custom_id)
    return Line(custom_id=custom_id, url=str(url), body=body)


def _object(raw: bytes) -> dict[str, Any]:
    if len(raw) > LONGEST:
        raise BadLine("line_too_long", f"the line has over {LONGEST} bytes, the most that are read")
    try:
        found = json.loads(raw.decode(), parse_constant=_constant)
    except UnicodeDecodeError as error:
        raise BadLine(
            "invalid_utf8", f"the line is not UTF-8 text: byte 0x{raw[error.start]:02x} at "
            f"position {error.start}",
        ) from None  # fmt: skip
    except ValueError as error:
        raise BadLine("invalid_json", f"the line is not valid JSON: {error}") from None
    except RecursionError:
        raise BadLine("invalid_json", "the line is nested too deeply") from None
    if not isinstance(found, dict):
        raise BadLine("invalid_line", "a line must be a JSON object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON's")
