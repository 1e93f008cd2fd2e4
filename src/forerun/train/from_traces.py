"""Recorded answers as texts to train on: what a head will have to draft, as users asked for it.

    forerun generate … --json >> answers.jsonl        forerun chat --json, the same
    read_answers([Path("answers.jsonl")], model)      prompt and answer of each line, as ids

A line holds the prompt's ids, the answer's, and the trace of its rounds. A file that `--trace`
wrote holds the rounds alone: not the prompt, without which the target's states cannot be had.

Ids mean something under one vocabulary. So each answer's text is held against its ids, read with
the model's tokenizer: a file of another model's is refused.

What this module does not know: how the answers came about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.sampling import is_whole
from forerun.train.texts import Text

OPTION = "--from-traces"


def read_answers(paths: Sequence[Path], model: Model) -> list[Text]:
    """A text for each line that has an answer; those of a file that comes twice, once.

    OptionError for what cannot be read or is none, naming the line, and where there is no answer.
    """
    found: dict[tuple[int, ...], Text] = {}
    for path in paths:
        for where, line in _lines(path):
            ids, start = _ids(where, line, model)
            if start < len(ids):
                name = f"recorded {len(found)}"
                text = Text(name=name, ids=ids, spans=((start, len(ids)),), temperature=None)
                found.setdefault(ids, text)
    if paths and not found:
        raise OptionError(f"{OPTION} {paths[0]}: there is no answer to train on")
    return list(found.values())


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{OPTION} {path}, line {number}", line
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"{OPTION} {path} cannot be read: {reason}") from None


def _ids(where: str, line: bytes, model: Model) -> tuple[tuple[int, ...], int]:
    """Prompt and answer, and where the answer begins."""
    try:
        fields: Any = json.loads(line)
    except ValueError as error:
        raise OptionError(f"{where}: {error}; give what `forerun generate --json` wrote") from None
    if isinstance(fields, dict) and "schema" in fields and "prompt" not in fields:
        raise OptionError(
            f"{where}: a round of --trace does not say what the prompt was; record answers with "
            "--json instead"
        )
    prompt, tokens = (_checked(where, fields, name, model) for name in ("prompt", "tokens"))
    ids = (*prompt, *tokens)
    if model.context is not None and len(ids) > model.context:
        raise OptionError(f"{where}: {len(ids)} tokens; the context is {model.context}")
    _check_text(where, fields.get("text"), tokens, model)
    return ids, len(prompt)


def _checked(where: str, fields: Any, name: str, model: Model) -> tuple[int, ...]:
    ids = fields.get(name) if isinstance(fields, dict) else None
    if not isinstance(ids, list) or not all(is_whole(i) for i in ids):
        raise OptionError(
            f"{where}: {name!r} is no list of token ids; give what `forerun generate --json` wrote"
        )
    if bad := [i for i in ids if not 0 <= i < model.vocab_size]:
        raise OptionError(
            f"{where}: token id {bad[0]} is not in the vocabulary of {model.name}: 0 to "
            f"{model.vocab_size - 1}"
        )
    return tuple(ids)


def _check_text(where: str, text: Any, tokens: Sequence[int], model: Model) -> None:
    """The text ends before a stop string, and holds no end token."""
    shown = model.tokenizer.decode([i for i in tokens if i not in model.eos])
    if isinstance(text, str) and not shown.startswith(text.rstrip("\ufffd")):
        raise OptionError(
            f"{where}: the ids are not those of the text in the vocabulary of {model.name}: "
            "another model wrote it"
        )
