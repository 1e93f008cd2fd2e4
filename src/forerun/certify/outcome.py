"""From a case's tests to one of three words: lossless (within a bound), not lossless, undecided.

A law that fails with speculation on is speculation's fault only where it holds with speculation
off; where both fail, the reference computes another law than the engine does (another precision,
another order of controls), and nothing can be said. So too where there is nothing to compare with,
unless the reference is to be trusted.

What this module does not know: how a run goes, or is shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from forerun.certify.law_verdict import power
from forerun.certify.plan import Plan
from forerun.certify.run import CaseRun
from forerun.certify.tally import Part, Tally

Word = Literal["lossless within the bound", "not lossless", "undecided"]

FEW = 1000
"""Fewer tokens than this decide nothing but a fault."""

EXIT = {"lossless within the bound": 0, "not lossless": 1, "undecided": 2}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The verdict on a case, with its reason."""

    word: Word
    why: str
    blamed: tuple[str, ...] = ()  # settings that fail with speculation on and hold with it off


def outcome(run: CaseRun, plan: Plan) -> Outcome:
    """What a case comes to, the law first."""
    if run.fault:
        return _of_fault(run, plan)
    if run.bits is not None and run.bits.status == "fault":
        return Outcome(word="not lossless", why=f"bits: {run.bits.sentence}")
    if run.seeds is not None and run.seeds.status == "broken":
        return Outcome(word="not lossless", why=f"seeds: {run.seeds.sentence}")
    verdict = run.tally.whole.test.verdict()
    if run.bits is not None and run.bits.status == "undecided":
        return Outcome(word="undecided", why=f"bits: {run.bits.sentence}")
    if verdict.tokens < FEW:
        ended = run.ended or next((e.ended for e in run.settings.values() if e.ended), None)
        return Outcome(
            word="undecided",
            why=f"{verdict.tokens:,} tokens are too few to say" + (f": {ended}" if ended else ""),
        )
    ended = f"; it ended early: {run.ended}" if run.ended else ""
    return Outcome(word="lossless within the bound", why=f"{verdict.sentence}{ended}")


def of_all(outcomes: list[Outcome]) -> Word:
    """Of a run of several cases: a fault in one is a fault; else all must be decided."""
    words = {each.word for each in outcomes}
    if "not lossless" in words:
        return "not lossless"
    return "undecided" if "undecided" in words or not words else "lossless within the bound"


def _of_fault(run: CaseRun, plan: Plan) -> Outcome:
    failing = run.failing or ["all settings together"]
    named = ", ".join(failing)
    said = _said(run, failing)
    if run.off is None:
        if plan.trust_reference:
            return Outcome(word="not lossless", why=said, blamed=tuple(failing))
        return Outcome(
            word="undecided",
            why=f"could not decide: {named} fails, and there is nothing to compare with, for "
            f"{run.off_error}. Give a way to turn it off, or --trust-reference. {said}",
        )
    if run.failing:
        blamed = [name for name in run.failing if _holds(run.off, run.tally, name)]
    else:
        blamed = failing if _part_holds(run.off.whole, run.tally.whole) else []
    if blamed:
        return Outcome(
            word="not lossless",
            why=f"{_said(run, blamed)}; {_together(run)}with speculation off the same settings "
            "hold",
            blamed=tuple(blamed),
        )
    if run.off_error is not None:
        return Outcome(
            word="undecided",
            why=f"could not decide: {named} fails, and with speculation off {run.off_error}",
        )
    return Outcome(
        word="undecided",
        why=f"could not decide: the reference differs. {named} fails with speculation off as well",
    )


def _said(run: CaseRun, names: list[str]) -> str:
    parts = [run.tally.parts[name] for name in names if name in run.tally.parts]
    worst = max(parts or [run.tally.whole], key=lambda part: (part.broken_count, _log_e(part)))
    where = ", ".join(names)
    if worst.broken:
        first = worst.broken[0]
        return (
            f"{where}: not lossless: {worst.broken_count:,} texts or tokens that cannot be, first "
            f"{first.why} (after prompt {list(first.prompt)}: {list(first.tokens)})"
        )
    return f"{where}: {worst.test.verdict().sentence}"


def _together(run: CaseRun) -> str:
    """All settings' e-value, where it says more than that of each alone."""
    verdict = run.tally.whole.test.verdict()
    if not run.failing or not verdict.fault or verdict.zero_count:
        return ""
    return f"all settings together: e-value {power(verdict.peak_log_e)}; "


def _log_e(part: Part) -> float:
    return part.test.verdict().peak_log_e


def _holds(off: Tally, on: Tally, name: str) -> bool:
    return name in off.parts and _part_holds(off.parts[name], on.parts[name])


def _part_holds(off: Part, on: Part) -> bool:
    """Whether the law holds with speculation off, on at least as many tokens as it took to fail.

    Half-way to the threshold is not holding: with more tokens it would fail too.
    """
    verdict = off.test.verdict()
    enough = verdict.tokens >= min(on.test.tokens, FEW * 100)
    return (
        enough
        and off.broken_count == 0
        and verdict.zero_count == 0
        and verdict.peak_log_e < -math.log(verdict.level) / 2
    )
