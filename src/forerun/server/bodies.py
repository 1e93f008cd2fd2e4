"""From the bytes of a body to a request, off the event loop where that may take long."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from forerun.openai.errors import ApiError, invalid
from forerun.openai.requests import Body
from forerun.server.answers import in_thread

T = TypeVar("T", bound=Body)

SMALL = 16 << 10  # bytes that are read in less time than a thread takes to begin


async def read(http: Request, model: type[T]) -> T:
    """The body as `model`. ApiError 400 for what is no JSON of its kind, and why."""
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and "+json" in kind):
        raise invalid([])
    raw = await http.body()
    return _read(raw, model) if len(raw) <= SMALL else await in_thread(_read, raw, model)


def _read(raw: bytes, model: type[T]) -> T:
    if not raw.strip(b" \t\r\n"):
        raise invalid([])
    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        raise invalid(error.errors(include_url=False, include_input=False)) from None
    except RecursionError:
        raise ApiError(400, "the body is nested too deeply") from None
