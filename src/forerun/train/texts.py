"""Texts on disk: ids, and which of them the target wrote or would have to write.

    with TextFile(folder / "texts.jsonl") as texts:
        texts.append(Text(name="17.0", ids=(1, 5, 9, 2), spans=((2, 4),), temperature=1.0))

A line a text, written whole before the next begins; what a kill left of a last line is cut off when
the file is opened again, so that nothing but the text that was being written is lost.

What this module does not know: models, and who wrote the texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from forerun.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Text:
    """`spans` are the answers: [start, stop) in ids. `temperature` they were drawn at; None: they
    were given. `name` is the number of the chat, and of the answer in it: "17.0"."""

    name: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    temperature: float | None

    @property
    def answered(self) -> int:
        """Tokens of the answers."""
        return sum(stop - start for start, stop in self.spans)


class TextFile:
    """Texts in the order they were written; the file may be there already."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: list[Text] = []
        self._names: dict[str, int] = {}
        self._answered = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> TextFile:
        """OptionError where a line of the file, but for the last, is no text."""
        whole = 0
        if self._path.exists():
            with self._path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if not line.endswith(b"\n"):
                        break
                    self._take(_text(f"{self._path}, line {number}", line))
                    whole += len(line)
            os.truncate(self._path, whole)
        self._file = self._path.open("ab")
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, text: Text) -> None:
        assert self._file is not None, "a TextFile is written inside of its `with`"
        self._file.write(json.dumps(asdict(text), separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        self._take(text)

    def get(self, name: str) -> Text | None:
        at = self._names.get(name)
        return None if at is None else self._texts[at]

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, i: int) -> Text:
        return self._texts[i]

    def __iter__(self) -> Iterator[Text]:
        return iter(self._texts)

    @property
    def answered(self) -> int:
        """Tokens of all answers."""
        return self._answered

    def _take(self, text: Text) -> None:
        self._names[text.name] = len(self._texts)
        self._texts.append(text)
        self._answered += text.answered


def _text(where: str, line: bytes) -> Text:
    try:
        found: dict[str, Any] = json.loads(line)
        return Text(
            name=str(found["name"]),
            ids=tuple(found["ids"]),
            spans=tuple((int(start), int(stop)) for start, stop in found["spans"]),
            temperature=found["temperature"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{where} is damaged: {error}; use another --out") from None
