"""What is asked of the target: the shipped prompts, or the user's file.

    {"prompt": "The sea was calm"}                          raw text to go on from
    {"messages": [{"role": "user", "content": "Hello"}]}    a chat to answer
    {"messages": [… , {"role": "assistant", …}]}            a chat whose answers are there already

A file is read whole before anything else is done, and whatever is wrong with a line is an
OptionError that names it.

What this module does not know: models, and how chats become ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from forerun.errors import OptionError
from forerun.text.chat_template import ROLES
from forerun.train.prompts import Turns

Message = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Chat:
    """`before` stands there; `turns` are said one after another, each after the target's answer.

    Raw text is `text`, without messages. A chat that ends with an answer asks for none. In one that
    is `imagined`, what the user says is yet to be written, by the target itself.
    """

    number: int
    before: tuple[Message, ...] = ()
    turns: tuple[str, ...] = ()
    text: str | None = None
    imagined: bool = False

    @property
    def answers(self) -> int:
        """How many are asked for."""
        return 1 if self.imagined or self.text is not None else len(self.turns)


def of_prompts(prompts: Iterable[Turns], *, imagined: int = 0) -> Iterator[Chat]:
    """A chat for each prompt, and before it so many that are imagined."""
    numbers = count()
    for turns in prompts:
        for _ in range(imagined):
            yield Chat(number=next(numbers), imagined=True)
        yield Chat(number=next(numbers), turns=turns)


def read_chats(option: str, path: Path) -> list[Chat]:
    """The chats of a JSONL file, each line checked. OptionError; `option` is named there."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"{option} {path} cannot be read: {reason}") from None
    numbers = count()
    found = [
        _chat(f"{option} {path}, line {i}", next(numbers), line)
        for i, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not found:
        raise OptionError(f"{option} {path} is empty: it has to hold at least one prompt or chat")
    return found


def _chat(where: str, number: int, line: bytes) -> Chat:
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{where} is not valid JSON in UTF-8: {error}") from None
    if not isinstance(found, dict) or ("prompt" in found) == ("messages" in found):
        raise OptionError(
            f'{where} must be an object with either "prompt", a text, or "messages", a list'
        )
    if "prompt" in found:
        text = found["prompt"]
        if not isinstance(text, str) or not text:
            raise OptionError(f'{where}: "prompt" must be a text of at least one letter')
        return Chat(number=number, text=text)
    messages = found["messages"]
    if not isinstance(messages, list) or not messages:
        raise OptionError(f'{where}: "messages" must be a list of at least one message')
    checked = tuple(_message(where, message) for message in messages)
    if checked[-1]["role"] == "assistant":
        return Chat(number=number, before=checked)
    if checked[-1]["role"] != "user":
        raise OptionError(f'{where}: the last message must be of "user" or "assistant"')
    return Chat(number=number, before=checked[:-1], turns=(checked[-1]["content"],))


def _message(where: str, message: Any) -> Message:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise OptionError(f'{where}: each message needs a "role": {", ".join(ROLES)}')
    content = message.get("content")
    if not isinstance(content, str):
        raise OptionError(f'{where}: each message needs its "content" as text')
    return {"role": message["role"], "content": content}
