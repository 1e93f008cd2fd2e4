"""What the user sees: text as it comes, its colours, a legend, a summary; on a terminal or a pipe.

Standard output carries the answer and nothing else; on a terminal a legend and a summary join it.
Everything else goes to standard error. Kinds of tokens differ in colour and in shape, so that
nobody needs to see colours:

    accepted   drafted, and kept                    green, underlined
    corrected  drafted, rejected, and replaced      yellow, bold
    bonus      the target's own, not drafted        cyan, plain

A bonus follows a draft that was kept whole, and stands wherever nothing was drafted.

No escape code is written to what is no terminal, nor under NO_COLOR, --no-color or TERM=dumb.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from forerun.trace import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

STYLES: dict[Kind, Style] = {
    "accepted": Style(color="green", underline=True),
    "residual": Style(color="yellow", bold=True),
    "bonus": Style(color="cyan"),
}
LEGEND: dict[Kind, tuple[str, str]] = {
    "accepted": ("accepted", "drafted and kept"),
    "residual": ("corrected", "drafted and replaced"),
    "bonus": ("bonus", "the target's own, undrafted"),
}
PLAIN, DIM, STRONG, BAD = Style(), Style(dim=True), Style(bold=True), Style(color="red", bold=True)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tab and newline


class Screen:
    """Standard output and standard error, as they are now."""

    def __init__(self, *, no_color: bool = False) -> None:
        plain = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.out, self.err = sys.stdout, sys.stderr
        self.terminal = self.out.isatty()  # somebody reads along
        self.styled = self.terminal and not plain
        self.err_styled = self.err.isatty() and not plain

    # ------------------------------------------------------------------ the answer

    def write(self, text: str, kind: Kind | None = None) -> None:
        """Text of an answer, at once. A terminal shows its control characters, but obeys none."""
        if self.terminal:
            text = _CONTROL.sub(_shown, text)
        self._put(self.out, self._paint(text, STYLES[kind], self.styled) if kind else text)

    def line(self, text: str = "", style: Style = PLAIN) -> None:
        self._put(self.out, self._paint(text, style, self.styled) + "\n")

    def legend(self) -> None:
        """Which look means what; nothing where all looks alike."""
        if self.styled:
            entries = [
                self._paint(name, STYLES[kind], True) + self._paint(f" {what}", DIM, True)
                for kind, (name, what) in LEGEND.items()
            ]
            self._put(self.out, "   ".join(entries) + "\n\n")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns of text, as wide as they must be."""
        lines = [header, *rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        for number, line in enumerate(lines):
            cells = "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            self.line(cells, STRONG if number == 0 else PLAIN)

    # ------------------------------------------------------------------ beside it

    def note(self, text: str) -> None:
        """A line for the user, beside the answer."""
        self._put(self.err, self._paint(text, DIM, self.err_styled) + "\n")

    def error(self, text: str) -> None:
        with suppress(OSError):  # standard output may be what is wrong
            self.out.flush()
        self._put(self.err, self._paint("forerun: ", BAD, self.err_styled) + text + "\n")

    @contextmanager
    def working(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A spinner while something takes its time. What it gives shows a fetch, in bytes."""
        if not self.err_styled:
            yield self._announce()
            return
        from forerun.cli.working import Working

        with Working(what, self.console()) as working:
            yield working.fetched

    def console(self) -> Console:
        """For spinners and bars of rich: standard error."""
        return Console(file=self.err, force_terminal=self.err_styled, highlight=False)

    def _announce(self) -> Callable[[int, int], None]:
        announced = False

        def fetched(done: int, total: int) -> None:
            nonlocal announced
            if not announced:
                from forerun.cli.values import size_text

                announced = True
                self.note(f"fetching {size_text(total)}; this happens once")

        return fetched

    @staticmethod
    def _paint(text: str, style: Style, styled: bool) -> str:
        """Line by line, so that no style runs over a line's end."""
        if not styled or not style:
            return text
        return "\n".join(
            style.render(line, color_system=ColorSystem.STANDARD) if line else ""
            for line in text.split("\n")
        )

    @staticmethod
    def _put(file: IO[str], text: str) -> None:
        file.write(text)
        file.flush()


def _shown(found: re.Match[str]) -> str:
    """A control character's picture: ␛ for ESC."""
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
