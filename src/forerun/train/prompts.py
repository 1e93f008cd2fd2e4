"""The prompts that come with forerun: templates filled from lists, always in the same order.

    next(training())      ("Write a short story about a silver key.",)
    next(held_out())      of other templates, filled with other entries

A prompt is what a user says, turn by turn. `prompts.txt` holds templates and lists; prompt i takes
template i mod their number, and entries that a hash of (stream, i, place) picks, so that the same
prompts come on every machine. None comes twice.

What this module does not know: models, and what is answered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import count

Turns = tuple[str, ...]
"""What the user says, turn by turn; at least once."""

_RANGES = {"int": (2, 99), "big": (100, 2500)}
_SLOT = re.compile(r"\{(\w+)\}")
_TRIES = 20  # entries tried for a template before it is passed over: its prompts are used up


@dataclass(frozen=True, kw_only=True)
class Part:
    """Templates, and lists by name, that make one set of prompts."""

    templates: Sequence[str]
    lists: Mapping[str, Sequence[str]]


def training(seed: int = 0) -> Iterator[Turns]:
    """Prompts for training; another seed picks other entries."""
    return _prompts(read()[0], f"training {seed}")


def held_out() -> Iterator[Turns]:
    """Prompts for evaluation: no template and, but for numbers, no entry is one of training's."""
    return _prompts(read()[1], "held out")


def read() -> tuple[Part, Part]:
    """What is for training, and what is held out."""
    text = resources.files("forerun.train").joinpath("prompts.txt").read_text("utf-8")
    templates: tuple[list[str], list[str]] = ([], [])
    raw: dict[str, list[str]] = {}
    current: list[str] | None = None  # lines of the list that is read; None: templates
    for line in text.splitlines():
        if line.startswith("@ "):
            current = raw[line[2:]] = []
        elif line.startswith("! "):
            current = None
        elif line and not line.startswith("#"):
            if current is not None:
                current.append(line)
            else:
                templates[line.startswith("% ")].append(line.removeprefix("% "))
    lists: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for name, lines in raw.items():
        for which, part in enumerate(" ".join(lines).split("% ")):
            lists[which][name] = [entry.strip() for entry in part.split("|") if entry.strip()]
    train, held = (Part(templates=t, lists=entries) for t, entries in zip(templates, lists))
    return train, held


def _prompts(part: Part, stream: str) -> Iterator[Turns]:
    seen: set[str] = set()
    unfruitful = 0
    for i in count():
        template = part.templates[i % len(part.templates)]
        for attempt in range(_TRIES):
            filled = _filled(template, part.lists, f"{stream} {i} {attempt}")
            if filled not in seen:
                seen.add(filled)
                yield tuple(turn.strip() for turn in filled.split(">>"))
                unfruitful = 0
                break
        else:
            unfruitful += 1
            if unfruitful == len(part.templates):
                return


def _filled(template: str, lists: Mapping[str, Sequence[str]], key: str) -> str:
    """The template with an entry in each place; entries of one list differ as long as they can."""
    used: dict[str, set[str]] = {}
    place = count()

    def entry(found: re.Match[str]) -> str:
        name, number = found[1], _number(f"{key} {next(place)}")
        if name in _RANGES:
            least, most = _RANGES[name]
            return str(least + number % (most - least + 1))
        taken = used.setdefault(name, set())
        free = [one for one in lists[name] if one not in taken] or lists[name]
        chosen = free[number % len(free)]
        taken.add(chosen)
        return chosen

    while _SLOT.search(template):  # entries may have places of their own
        template = _SLOT.sub(entry, template)
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", template)


def _number(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
