"""Replies and errors as responses."""

from __future__ import annotations

from starlette.responses import Response

from forerun.openai.errors import ApiError


def error_response(error: ApiError) -> Response:
    return Response(
        error.to_json(), error.status, headers=error.headers, media_type="application/json"
    )


def json_response(text: str) -> Response:
    """Of JSON that is written already."""
    return Response(text, media_type="application/json")
