"""Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}} and a status.

What the engine refuses at submission is the client's to mend: 400. What ends a request while it
runs is not: 500. Too many waiting: 429 with Retry-After. Closed: 503.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from forerun.errors import EngineClosedError, ForerunError, GrammarError, OverloadedError


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    error: ErrorDetail


_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    408: ("timeout_error", "timeout"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


RETRY_AFTER = 2  # seconds: a few answers end in the time


class ApiError(Exception):
    """An answer that is an error. `status` is HTTP's; the rest is OpenAI's."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param
        kind, usual = _KINDS.get(
            status, ("server_error" if status >= 500 else "invalid_request_error", None)
        )
        self.type, self.code = kind, usual if code is None else code
        self.headers: dict[str, str] = {}

    @property
    def body(self) -> dict[str, Any]:
        detail = {
            "message": self.message, "type": self.type, "param": self.param, "code": self.code,
        }  # fmt: skip
        return {"error": detail}

    def to_json(self) -> str:
        """ASCII: a message may hold halves of surrogate pairs that a client sent."""
        return json.dumps(self.body)


def overloaded(message: str) -> ApiError:
    """Come again later."""
    error = ApiError(429, message)
    error.headers["retry-after"] = str(RETRY_AFTER)
    return error


def refusal(error: ForerunError, fields: Sequence[str] = ()) -> ApiError:
    """Of a request that the engine did not take. `param` is the field the message begins with."""
    message = str(error)
    if isinstance(error, OverloadedError):
        return overloaded(message)
    if isinstance(error, EngineClosedError):
        return ApiError(503, "this server is going down")
    first = re.match(r"\w*", message)
    named = first[0] if first is not None and first[0] in fields else None
    return ApiError(400, message, param=named)


def failure(error: BaseException | None) -> ApiError:
    """Of a request that ended while it ran. Its grammar is its own fault."""
    if isinstance(error, GrammarError):
        return ApiError(400, str(error), param="response_format")
    if isinstance(error, ForerunError):
        return ApiError(500, str(error))
    return ApiError(500, "the server failed at this request")


_MEANT = {
    "prompt": "a text, a list of texts, token ids, or a list of lists of token ids; none is empty, "
    "and no list has over 1,000,000 ids or 4,096 other items",
    "stop": "a text, or a list of at most 16 texts, of at most 1,000 letters each",
    "num_draft": "a whole number from 0 to 64, or 'auto'",
}
"""Fields that may have several types."""


def invalid(errors: Sequence[Any]) -> ApiError:
    """From pydantic's list of what is wrong, in a line: the first field, and why."""
    first = errors[0] if errors else {}
    where = [part for part in first.get("loc", ()) if part != "body"]
    if first.get("type") == "json_invalid":
        why = first.get("ctx", {}).get("error", "it cannot be read")
        return ApiError(400, f"the body is not valid JSON: {why}")
    if not where:
        return ApiError(
            400,
            "the body must be a JSON object, sent with content-type: application/json",
        )
    field = str(where[0])
    at = [part for part in where if isinstance(part, int) or str(part).isidentifier()]
    reasons = dict.fromkeys(e["msg"] for e in errors if field in e.get("loc", ()))
    path = ".".join(str(part) for part in at if part not in ("str", "int", "float", "bool"))
    if len(reasons) > 1 and field in _MEANT:  # of a choice of types: what was meant is not known
        return ApiError(400, f"{field} is {_MEANT[field]}", param=field)
    return ApiError(400, f"{path}: {'; or '.join(list(reasons)[:4])}", param=field)
