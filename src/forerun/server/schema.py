"""What `/openapi.json` says of routes beyond what FastAPI sees: bodies that they read themselves,
all statuses that they may answer with, streams."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from forerun.openai.errors import ErrorBody
from forerun.openai.requests import (
    Body,
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)
from forerun.openai.responses import ChatChunk

_WHY = {
    400: "The request cannot be used, and why",
    401: "No valid API key",
    404: "No such model",
    405: "The path takes another method",
    408: "The request took too long to arrive, or to answer",
    413: "The body is too large",
    429: "Too much waits; Retry-After says when to come again",
    500: "The server failed",
    503: "The server is going down",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How a route documents its errors."""
    return {s: {"model": ErrorBody, "description": _WHY[s]} for s in statuses}


def streams(model: type) -> dict[int | str, dict[str, Any]]:
    """How a route documents that it may stream. A schema would be taken for that of each event."""
    content: dict[str, Any] = {"text/event-stream": {}}
    return {200: {"model": model, "content": content, "description": "An answer, or a stream"}}


ANYWHERE = (400, 401, 405, 408, 413, 429, 500)
ASKED = (404, *ANYWHERE)
ANSWERED = (*ASKED, 503)


def documented(model: type[Body]) -> dict[str, Any]:
    """For `openapi_extra` of a route that reads such a body."""
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    content = {"application/json": {"schema": reference}}
    return {"requestBody": {"required": True, "content": content}}


def complete(schema: dict[str, Any]) -> None:
    """What routes read and stream themselves, which FastAPI does not see; without 422, which is 400
    here."""
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    read = (CompletionRequest, ChatRequest, TokenizeRequest, DetokenizeRequest)
    _, found = models_json_schema(
        [*((model, "validation") for model in read), (ChatChunk, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schema["components"]["schemas"].update(found["$defs"])
