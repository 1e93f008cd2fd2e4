"""`forerun certify --exact`: prove, here and now, that speculation leaves the output's law
alone."""

from __future__ import annotations

import json as json_
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from forerun.certify import suite
from forerun.cli.screen import BAD, STRONG, Screen
from forerun.cli.values import counted

if TYPE_CHECKING:
    from collections.abc import Callable


def certify_exactly(
    screen: Screen, drafter: str | None, verifier: str | None, *, every: bool, json: bool
) -> None:
    """Every random choice of the real decode loop both ways, on small models whose law is known,
    for every drafter, verifier and kind of sampling; typer.Exit(1) where a law is not exact.

    Unless `every` case is asked for, or a drafter or verifier is named, a selection of them."""
    cases = known = suite.cases(drafter, verifier)
    if not every and drafter is None and verifier is None:
        cases = suite.selection(known)
    start = time.perf_counter()
    results = []
    with _progress(screen, len(cases)) as advance:
        for case in cases:
            results.append(suite.run(case))
            advance()
    pairs = suite.by_pair(results)
    good = all(pair.exact for pair in pairs)
    if json:
        screen.line(json_.dumps(_as_dict(pairs, good, len(known)), ensure_ascii=False))
    else:
        some = "" if len(cases) == len(known) else f"{len(cases):,} of "
        count = f"{some}{counted(len(known), 'case')}"
        _print(screen, pairs, count, time.perf_counter() - start)
    if not good:
        raise typer.Exit(1)


def _print(screen: Screen, pairs: Sequence[suite.Pair], count: str, seconds: float) -> None:
    rows = [
        (
            pair.drafter,
            pair.verifier,
            str(pair.cases),
            f"{pair.worst.total_variation:.1e}",
            "PASS" if pair.exact else f"FAIL  {pair.worst.case.described}",
        )
        for pair in pairs
    ]
    screen.table(("DRAFTER", "VERIFIER", "CASES", "LARGEST TV", ""), rows)
    bad = sum(not pair.exact for pair in pairs)
    screen.line()
    if bad:
        what = f"NOT EXACT: {counted(bad, 'pair')} of {len(pairs)} above {suite.EXACT:.0e}"
    else:
        what = f"exact: every total variation is below {suite.EXACT:.0e}"
    screen.line(f"{what} · {count} in {seconds:.0f} s", BAD if bad else STRONG)


def _as_dict(pairs: Sequence[suite.Pair], good: bool, known: int) -> dict[str, Any]:
    return {
        "exact": good,
        "tolerance": suite.EXACT,
        "cases": sum(pair.cases for pair in pairs),
        "known_cases": known,
        "pairs": [
            {
                "drafter": pair.drafter,
                "verifier": pair.verifier,
                "cases": pair.cases,
                "total_variation": pair.worst.total_variation,
                "worst_case": pair.worst.case.described,
                "exact": pair.exact,
            }
            for pair in pairs
        ],
    }


@contextmanager
def _progress(screen: Screen, total: int) -> Iterator[Callable[[], None]]:
    if not screen.err_styled:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress(console=screen.console(), transient=True) as progress:
        task = progress.add_task("certifying", total=total)
        yield lambda: progress.advance(task)
