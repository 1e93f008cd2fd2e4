"""Values as people write them on a command line: sizes, biases, texts in files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from forerun.errors import OptionError

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}
_UNITS |= {letter: 1024**power for power, letter in enumerate("kmgt", start=1)}


def whole(text: str) -> int:
    """For typer, which names the option."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def whole_or_auto(text: str) -> int | str:
    """For typer, which names the option."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor auto") from None


def number_or_ranges(text: str) -> int | tuple[int, ...]:
    """For typer, which names the option: 8, or numbers and ranges of them, 3-12,15 (one: 4,)."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    found = list[int]()
    for part in text.removesuffix(",").split(","):
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        numbers = ends and range(int(ends[1]), int(ends[2] or ends[1]) + 1)
        if not numbers or len(numbers) > 1000:
            raise typer.BadParameter(f"{text!r} is neither a number nor a list such as 3-12,15")
        found += numbers
    return tuple(found)


def number(text: str) -> float:
    """For typer, which names the option."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def parse_size(option: str, text: str) -> int:
    """Bytes: "2GiB", "500 MB", "1.5g" (binary, as GiB), "1048576"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].lower() not in _UNITS:
        raise OptionError(f"{option} takes a size such as 2GiB, 500MB or 1048576, not {text!r}")
    size = int(float(found[1]) * _UNITS[found[2].lower()])
    if size < 1:
        raise OptionError(f"{option} must be at least one byte, not {text!r}")
    return size


def parse_biases(texts: Iterable[str]) -> dict[int, float]:
    """{id: bias} from "ID=NUMBER" each."""
    biases: dict[int, float] = {}
    for text in texts:
        left, _, right = text.partition("=")
        try:
            biases[int(left)] = float(right)
        except ValueError:
            raise OptionError(
                f"--logit-bias takes ID=NUMBER, such as 42=-3.5, not {text!r}"
            ) from None
    return biases


def read_text(option: str, path: Path) -> str:
    """A whole file as text. OptionError if it cannot be read or is not UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{option} {path}: {_reason(error)}") from None
    return decode(f"{option} {path}", data)


def read_stdin() -> str:
    """All of standard input as text."""
    return decode("standard input", sys.stdin.buffer.read())


def checked_text(what: str, text: str) -> str:
    """`text` from the command line, where Python keeps bytes that are not UTF-8 as surrogates."""
    if found := re.search("[\udc80-\udcff]", text):
        byte, at = ord(found[0]) - 0xDC00, len(os.fsencode(text[: found.start()]))
        raise OptionError(f"{what} is not valid UTF-8: byte 0x{byte:02x} at position {at}")
    return text


def decode(what: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise OptionError(
            f"{what} is not UTF-8 text: byte 0x{data[error.start]:02x} at position {error.start}"
        ) from None


def without_last_newline(text: str) -> str:
    """Without the one newline that editors and `echo` put at the end."""
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def size_text(count: int) -> str:
    """Bytes for people: 98.4 MB."""
    power = min((len(str(count)) - 1) // 3, 4)
    return f"{count} bytes" if power == 0 else f"{count / 1000**power:.1f} {'kMGT'[power - 1]}B"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """1 token, 2 tokens."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
