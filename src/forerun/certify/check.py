"""A report's numbers, computed again from its recorded samples: nothing in it is taken on trust.

    mismatches(report) -> what does not follow from the samples

The reference is made again as the report says, so its model must be there. The samples
themselves are taken as they are: whether the engine wrote them, only another run of it can tell.

What this module does not know: engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forerun.certify.outcome import EXIT
from forerun.certify.reference import Reference
from forerun.certify.report import SCHEMA, sampling_of, told_of
from forerun.certify.tally import Part, Tally
from forerun.errors import OptionError

Json = Mapping[str, Any]
References = Callable[[Json, bool], tuple[Reference, Reference | None]]
"""(models of a case, temperature last) -> the reference of the target, and of the draft."""

TOLERANCE = 1e-6  # relative; sums in another order


def mismatches(report: Json, references: References) -> list[str]:
    """What the samples do not bear out, in words; nothing: all follows from them.

    OptionError for what is no report, or one of another schema.
    """
    schema = report.get("schema") if isinstance(report, Mapping) else None
    if schema != SCHEMA or "cases" not in report:
        raise OptionError(f"this is no report of schema {SCHEMA} (its schema: {schema})")
    found = []
    for case in report["cases"]:
        reference, draft = references(case["models"], case["temperature_last"])
        for off in (False, True):
            said = case["off"] if off else case
            if said is not None:
                tally = again(case, report["plan"], reference, draft, off=off)
                found += _compared(case, said, tally, off=off)
    words = {case["verdict"] for case in report["cases"]}
    if EXIT.get(report["verdict"]) != report["exit_code"] or report["verdict"] not in words:
        found.append(f"the verdict {report['verdict']!r} is that of no case")
    return found


def again(
    case: Json, plan: Json, reference: Reference, draft: Reference | None, *, off: bool
) -> Tally:
    """The tests of a case, fed with its recorded samples."""
    levels = {each["level"] for each in case["settings"]}
    tally = Tally(
        reference,
        level=case["level"],
        part_level=min(levels, default=case["level"]),
        seed=plan["seed"],
        draft=draft,
    )
    for each in case["settings"] if not off else ():
        tally.part(each["name"])
    for record in case["records"]:
        if record["off"] != off:
            continue
        sampling = sampling_of(record["sampling"])
        if off:
            sampling.pop("num_draft", None)
        tally.add(
            record["setting"],
            tuple(case["prompts"][record["prompt"]]),
            [tuple(tokens) for tokens in record["samples"]],
            sampling,
            [told_of(one) for one in record["told"]],
        )
    return tally


def _compared(case: Json, said: Json, tally: Tally, *, off: bool) -> list[str]:
    name = case["name"] + (", speculation off" if off else "")
    if off:
        pairs: list[tuple[str, Json, Part | None]] = [(name, said["whole"], tally.whole)]
        pairs += [(f"{name}: {k}", v, tally.parts.get(k)) for k, v in said["settings"].items()]
    else:
        pairs = [(name, said, tally.whole)]
        pairs += [
            (f"{name}: {each['name']}", each, tally.parts.get(each["name"]))
            for each in said["settings"]
        ]
    found = [line for what, numbers, part in pairs for line in _numbers(what, numbers, part)]
    looks = [vars(each) for each in tally.diagnostics.found]
    if not off and not _alike(said["diagnostics"], looks):
        found.append(f"{name}: the diagnostics are not those of its samples")
    return found


def _numbers(what: str, said: Json, part: Part | None) -> list[str]:
    if part is None:
        return [f"{what}: the report has no samples of it"] if said["tokens"] else []
    verdict = part.test.verdict()
    computed = {
        "tokens": verdict.tokens,
        "sequences": verdict.sequences,
        "log_e": verdict.log_e,
        "peak_log_e": verdict.peak_log_e,
        "zeros": verdict.zero_count,
        "broken": part.broken_count,
        "edges": part.edges,
        "fault": part.fault,
    }
    return [
        f"{what}: {name} is {value} by the samples, and {said[name]} in the report"
        for name, value in computed.items()
        if not _same(said[name], value)
    ]


def _alike(said: Sequence[Json], found: Sequence[Json]) -> bool:
    return len(said) == len(found) and all(
        a.keys() == b.keys() and all(_same(a[k], b[k]) for k in b) for a, b in zip(said, found)
    )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(a == b)
