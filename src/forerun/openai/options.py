"""From a request's fields to the engine's keywords."""

from __future__ import annotations

import re
from typing import Any

from forerun.openai.errors import ApiError
from forerun.openai.requests import Format, Sampling, TextPart
from forerun.text.grammar import Grammar

_ALIKE = (
    "temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "min_tokens", "num_draft", "drafter", "verifier",
)  # fmt: skip


def engine_options(request: Sampling) -> dict[str, Any]:
    """What the fields that both endpoints share ask of the engine; those not given are left out.

    `max_tokens`, `logprobs` and the prompt are the endpoint's own.
    """
    options: dict[str, Any] = {name: getattr(request, name) for name in _ALIKE}
    if request.top_k is not None:
        options["top_k"] = max(request.top_k, 0)  # −1 is off too, as elsewhere
    if request.top_p == 0:  # OpenAI takes it: the likeliest token alone
        options |= {"top_p": None, "top_k": 1}
    if request.seed is not None:
        options["seed"] = request.seed % 2**64
    if request.stop:
        options["stop"] = request.stop
    if request.stop_token_ids:
        options["stop_ids"] = request.stop_token_ids
    if request.logit_bias:
        options["logit_bias"] = biases(request.logit_bias)
    if request.prediction is not None:
        content = request.prediction.content
        options["prediction"] = joined(content, "prediction") or None
    if request.speculative is False:
        options["num_draft"] = 0
    if request.trace == "full":
        options["trace_heads"] = True
    if request.response_format is not None:
        options["grammar"] = grammar(request.response_format)
    return {name: value for name, value in options.items() if value is not None}


def biases(given: dict[str, float]) -> dict[int, float]:
    """Ids come as strings, JSON has no other keys."""
    found: dict[int, float] = {}
    for key, bias in given.items():
        if not re.fullmatch(r"[0-9]{1,9}", key):
            raise ApiError(
                400, f"logit_bias takes token ids as keys, such as \"42\", not {key[:40]!r}",
                param="logit_bias",
            )  # fmt: skip
        found[int(key)] = bias
    return found


def joined(content: str | list[TextPart] | None, field: str) -> str:
    """The text of a content, its parts a line each. ApiError for parts that are not text."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    for part in content:
        if part.type != "text" or part.text is None:
            raise ApiError(
                400, f"content of type {part.type[:40]!r} is not supported: this server reads text",
                param=field,
            )  # fmt: skip
    return "\n".join(part.text or "" for part in content)


def grammar(wanted: Format) -> Grammar | None:
    """None for plain text."""
    if wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return Grammar.json_object()
    if wanted.type == "json_schema":
        schema = (wanted.json_schema or {}).get("schema")
        if not isinstance(schema, dict | bool):
            raise ApiError(
                400, "response_format of type json_schema needs json_schema: {\"schema\": {…}}",
                param="response_format",
            )  # fmt: skip
        return Grammar.json_schema(schema)
    text = wanted.regex if wanted.type == "regex" else wanted.lark
    if text is None:
        raise ApiError(
            400, f"response_format of type {wanted.type} needs {wanted.type}: a text",
            param="response_format",
        )  # fmt: skip
    return Grammar.regex(text) if wanted.type == "regex" else Grammar.lark(text)
