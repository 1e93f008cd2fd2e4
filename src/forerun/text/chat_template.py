"""Chat templates: a conversation as the text its model was trained on.

Templates are jinja2 programs that come with a model, so they run in a sandbox: they see the
messages, the names of a few tokens, and nothing else of Python. The environment is the one that
transformers gives them: trimmed blocks, loop controls, `generation`, `raise_exception`,
`strftime_now`, `tojson`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from forerun.errors import TemplateError

ROLES = ("system", "developer", "user", "assistant", "tool", "function", "ipython")


def render(
    template: str | None,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    tokens: Mapping[str, str] | None = None,
) -> str:
    """The conversation as text. `tokens` are the names templates know tokens by (`bos_token`, ...).

    TemplateError if there is no template, a message has no role and content, or the template
    itself refuses the conversation.
    """
    if template is None:
        raise TemplateError(
            "the model has no chat template; give the prompt as text instead of messages"
        )
    _check(messages)
    try:
        return _compiled(template).render(
            messages=[dict(message) for message in messages],
            tools=None,  # templates ask whether they are none
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **(tokens or {}),
        )
    except _RefusedError as error:
        raise TemplateError(f"the chat template refuses these messages: {error}") from error
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            f"the chat template is not valid jinja2: {error.message} in line {error.lineno}"
        ) from error
    except Exception as error:  # a template is a program: it can fail like any other
        raise TemplateError(
            f"the chat template fails on these messages: {type(error).__name__}: {error}"
        ) from error


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's words for training; here it shows its body."""

    tags = {"generation"}  # noqa: RUF012, the base class's own form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _RefusedError(Exception):
    """A template called raise_exception."""


def _check(messages: Sequence[Mapping[str, Any]]) -> None:
    if isinstance(messages, (str, Mapping)) or not messages:
        raise TemplateError(
            f"messages are a list of at least one {{'role': ..., 'content': ...}}, not {messages!r}"
        )
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or "role" not in message:
            raise TemplateError(f"message {i} has no role: {message!r}")
        if message["role"] not in ROLES:
            raise TemplateError(
                f"message {i} has the role {message['role']!r}. Known: {', '.join(ROLES)}"
            )
        content = message.get("content")
        if not isinstance(content, (str, list)) and not (
            content is None and message.get("tool_calls")
        ):
            raise TemplateError(f"message {i} needs its content as text, not {content!r}")


@lru_cache(maxsize=32)
def _compiled(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(template)


def _raise_exception(message: str) -> NoReturn:
    raise _RefusedError(message)


def _strftime_now(format: str) -> str:
    return datetime.datetime.now().strftime(format)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As JSON for a model, not for HTML: jinja2's own filter escapes `<`, `>`, `&` and quotes."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
