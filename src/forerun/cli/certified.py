"""What `forerun certify` shows: a line that grows while it samples, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forerun.certify import markdown, report
from forerun.certify.law_verdict import power
from forerun.certify.run import Progress
from forerun.cli.screen import BAD, STRONG, Screen

_SAY_EVERY = 2.0  # seconds between lines of progress, where there is no terminal


@contextmanager
def sampling(screen: Screen) -> Iterator[Callable[[Progress], None]]:
    """One line that changes on a terminal; elsewhere a line now and then."""
    if screen.err_styled:
        with screen.console().status("sampling") as status:
            yield lambda at: status.update(_line(at))
        return
    said = -_SAY_EVERY

    def note(at: Progress) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= _SAY_EVERY:
            said = now
            screen.note(_line(at))

    yield note


def _line(at: Progress) -> str:
    grown = max(min(at.log_e / at.threshold, 1.0), 0.0)
    bar = "█" * round(10 * grown) + "░" * (10 - round(10 * grown))
    fault = "  FAULT" if at.fault else ""
    return (
        f"{at.case} · {at.setting} · {at.tokens:,} tokens · e-value {power(at.log_e)} {bar} "
        f"{power(at.threshold)}{fault} · {at.left:.0f} s left"
    )


def show(screen: Screen, made: dict[str, Any], out: Path | None) -> None:
    rows = [
        (case["name"], case["verdict"], f"{case['tokens']:,}", markdown.e_value(case))
        for case in made["cases"]
    ]
    screen.table(("CASE", "VERDICT", "TOKENS", "E-VALUE"), rows)
    screen.line()
    for case in made["cases"]:
        if len(made["cases"]) > 1 and case["verdict"] == "lossless within the bound":
            continue  # the table says it; one case alone says what is excluded
        screen.line(f"{case['name']}: {case['why']}")
        if (minimal := markdown.failing(case)) and case["verdict"] != "lossless within the bound":
            screen.line(f"  minimal failing case: {minimal[0]}")
        for name in ("seeds", "bits"):
            if case[name] is not None:
                screen.line(f"  {name}: {case[name]['sentence']}")
    bad = made["verdict"] != "lossless within the bound"
    screen.line(
        f"{made['verdict']} (false alarm ≤ {made['plan']['level']:g})", BAD if bad else STRONG
    )
    if bad:
        screen.line(f"again: {made['command']}")
    if out is not None:
        screen.note(f"{out / report.HTML}, {report.MARKDOWN} and {report.JSON} are there")
