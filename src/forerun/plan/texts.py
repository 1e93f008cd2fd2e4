"""The prompts, and what the target writes after them without any drafter.

    prompts = read(Path("asked.jsonl"))         {"prompt": …} or {"messages": […]} a line
    text = write(target, prompts[0], options)   prompt and output as ids, and what a token took

A file whose first character is `{` has a JSON object a line; any other is one prompt as it stands.

What this module does not know: drafters.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from forerun.engine.engine import Engine
from forerun.engine.prompt import Prompt
from forerun.engine.request import Request, make_request
from forerun.errors import OptionError
from forerun.models.base import Model

Clock = Callable[[], float]

LEAST = 8  # tokens of a text that anything can be learnt from


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A prompt, and where it stands."""

    name: str
    prompt: Prompt


@dataclass(frozen=True, kw_only=True)
class Text:
    """What the target wrote after a prompt."""

    name: str
    request: Request  # the prompt's ids, and how is sampled
    output: tuple[int, ...]
    took: float  # seconds of a token, the median, all that the engine does included


def write(
    target: Model, asked: Asked, options: Mapping[str, Any], clock: Clock = perf_counter
) -> Text | None:
    """The target's own text; None where it has fewer than LEAST tokens."""
    moments, tokens = [clock()], list[int]()
    with (
        Engine(target, num_draft=0) as engine,
        engine.stream(asked.prompt, **options) as stream,
    ):
        for piece in stream:
            moments.append(clock())
            tokens += piece.tokens
    if len(tokens) < LEAST:
        return None
    request = make_request(target, None, asked.prompt, options)
    took = [after - before for before, after in pairwise(moments[1:])]
    return Text(
        name=asked.name, request=request, output=tuple(tokens), took=statistics.median(took)
    )


def read(path: Path, *, chat: bool = False) -> list[Asked]:
    """The prompts of a file; plain ones are messages to answer where `chat`.

    OptionError for a file that cannot be read or has none, naming the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise OptionError(f"--prompts {path} cannot be read: {str(reason).lower()}") from None
    if not text.strip():
        raise OptionError(f"--prompts {path} is empty")
    if not text.lstrip().startswith("{"):
        return [Asked(name=path.name, prompt=_said(text.rstrip("\n"), chat))]
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return [_line(path, number, line, chat) for number, line in lines]


def _line(path: Path, number: int, line: str, chat: bool) -> Asked:
    where = f"--prompts {path}, line {number}"
    try:
        fields: Any = json.loads(line)
    except ValueError as error:
        raise OptionError(f"{where}: {error}; give a JSON object a line") from None
    found = fields.get("messages", fields.get("prompt")) if isinstance(fields, dict) else None
    if isinstance(found, str) and found:
        return Asked(name=f"{path.name}:{number}", prompt=_said(found, chat))
    if not (isinstance(found, list) and found and all(isinstance(one, dict) for one in found)):
        raise OptionError(f'{where}: give {{"prompt": "…"}} or {{"messages": [{{"role": …}}]}}')
    return Asked(name=f"{path.name}:{number}", prompt=found)


def _said(text: str, chat: bool) -> Prompt:
    return [{"role": "user", "content": text}] if chat else text


def built_in(target: Model) -> list[Asked]:
    """An edit, a summary, code and a question: messages where the model has a chat template.

    OptionError for a model without a tokenizer.
    """
    if target.tokenizer is None:
        raise OptionError(f"{target.name} has no tokenizer; plan needs prompts as token ids")
    chat = target.tokenizer.chat_template is not None
    return [
        Asked(name=name, prompt=_said(text, True) if chat else f"{text}\n\n")
        for name, text in BUILT_IN.items()
    ]


_FUNCTIONS = '''\
def total_price(items):
    """Sum of price times amount over all items."""
    total = 0.0
    for item in items:
        total += item["price"] * item["amount"]
    return round(total, 2)


def cheapest(items):
    """The item with the lowest price, or None if there is none."""
    best = None
    for item in items:
        if best is None or item["price"] < best["price"]:
            best = item
    return best


def by_name(items):
    """The items in a dictionary, by their names."""
    found = {}
    for item in items:
        found[item["name"]] = item
    return found'''

BUILT_IN: Mapping[str, str] = {
    "edit": "Return this file with one change: the function `total_price` is now called "
    "`full_price`. Everything else stays as it is. Answer with the whole file in one code block "
    f"and nothing else.\n\n```python\n{_FUNCTIONS}\n```",
    "summary": "Summarise this text in three sentences.\n\nThe old harbour closed in the spring, "
    "after the last ferry had been sold. For a year the town argued about what to do with the "
    "quay. Some wanted flats with a view of the islands, some a market hall, and the sailing club "
    "wanted its moorings back. In the end the council kept the quay public: it paved the north "
    "side for a weekly market, gave the south side to the club, and turned the customs house into "
    "a library with a reading room above the water. The work took two years and cost less than "
    "planned, because the old granite blocks could be used again. Visitors say that the harbour "
    "has never been so quiet, and the library is full on rainy days.",
    "code": "Write a Python class for a stack with push, pop, peek and a method that returns the "
    "smallest element in constant time. Give each method a docstring.",
    "question": "Why do the days get longer in spring and shorter in autumn? Explain it to a child "
    "who asks for the reasons behind the reasons.",
}


def named(prompts: Sequence[Prompt]) -> list[Asked]:
    """Prompts of a program, by number."""
    return [Asked(name=str(number), prompt=prompt) for number, prompt in enumerate(prompts, 1)]
