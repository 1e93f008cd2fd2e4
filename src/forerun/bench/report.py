"""A record of measurements as Markdown for people and JSON for programs.

Both are written beside their place and renamed, so that a report is whole whenever it is looked at;
one of an interrupted run says so.

This module does not know how anything was measured.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from forerun.bench.figures import Figure, Summary, summarise
from forerun.bench.passes import Passes
from forerun.bench.plan import SAMPLINGS, Record

SCHEMA = 1
BUSY = 0.5  # load above which a report says so
JSON, MARKDOWN = "report.json", "report.md"


def to_dict(record: Record) -> dict[str, Any]:
    """All there is: settings, machine, each run, and what they add up to."""
    plan = record.plan
    return {
        "schema": SCHEMA,
        "forerun": version("forerun"),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine() | {"load_before": record.load},
        "complete": record.complete,
        "interrupted": record.interrupted,
        "settings": {
            "model": plan.model,
            "draft_model": plan.draft_model,
            "head": None if plan.head is None else str(plan.head),
            "systems": [system.name for system in plan.systems],
            "workloads": {w.name: w.package for w in plan.workloads},
            "samplings": {name: SAMPLINGS[name] for name in plan.samplings},
            "repeats": plan.repeats,
            "items": plan.items,
            "max_tokens": plan.max_tokens,
            "threads": plan.threads,
            "seed": plan.seed,
            "baseline": plan.systems[0].name,
        },
        "engines": record.engines,
        "failures": record.failures,
        "summary": [
            s.to_dict() for s in summarise(record.runs, [system.name for system in plan.systems])
        ],
        "passes": record.passes.to_dict() if record.passes is not None else None,
        "runs": [dataclasses.asdict(run) for run in record.runs],
    }


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def to_markdown(record: Record) -> str:
    """Tables: medians, and the range over repeats in brackets."""
    plan = record.plan
    draft = f", drafts by {plan.draft_model}" if plan.draft_model else ""
    items = ""
    if plan.workloads:
        items = f" of {_counted(plan.items, 'item')} of at most {plan.max_tokens} tokens"
    lines = [
        f"# {plan.model}{draft}",
        "",
        f"{_processor()}, {_counted(plan.threads, 'thread')}; forerun {version('forerun')}; "
        f"{time.strftime('%Y-%m-%d')}. {_counted(plan.repeats, 'repeat')}{items}; "
        "median and range; systems in turn.",
        "",
    ]
    if record.load is not None and record.load > BUSY:
        lines += [f"The machine was busy before the run began: a load of {record.load:.1f}.", ""]
    if record.interrupted:
        lines += ["**The run was interrupted: this is what there was.**", ""]
    elif not record.complete:
        lines += ["**The run has not come to its end: this is what there is so far.**", ""]
    for name, why in record.failures.items():
        lines += [f"**{name} failed and is left out from there on:** {why}", ""]
    for name, said in record.engines.items():
        lines += [f"- {name}: " + ", ".join(str(value) for value in said.values())]
    lines += [""]
    if record.passes is not None:
        first = plan.systems[0].engine.name
        lines += _passes(record.passes, first)
    summaries = summarise(record.runs, [system.name for system in plan.systems])
    for workload, sampling in dict.fromkeys((s.workload, s.sampling) for s in summaries):
        chosen = [s for s in summaries if (s.workload, s.sampling) == (workload, sampling)]
        lines += _workload(workload, sampling, chosen, plan.systems[0].name)
    return "\n".join(lines).rstrip() + "\n"


def write(record: Record, folder: Path) -> None:
    """report.json and report.md in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        JSON: json.dumps(to_dict(record), ensure_ascii=False, indent=1) + "\n",
        MARKDOWN: to_markdown(record),
    }
    for name, text in texts.items():
        fresh = folder / f".{name}.{os.getpid()}"
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(folder / name)


def _workload(
    workload: str, sampling: str, summaries: Sequence[Summary], baseline: str
) -> list[str]:
    temperature, top_p = SAMPLINGS[sampling]
    how = "greedy" if temperature == 0 else f"T = {temperature:g}, top-p {top_p:g}"
    header = (
        "system", "tokens/s", f"× {baseline}", "with prompt", "first token, ms", "tokens/pass",
        "accepted", "outside passes", "foretold ÷ came", "same text",
    )  # fmt: skip
    rows = [
        (
            s.system,
            _figure(s.decode, "{:.1f}"),
            _figure(s.ratio, "{:.2f}"),
            _figure(s.total, "{:.1f}"),
            _figure(s.first, "{:.0f}", 1e3),
            _figure(s.tokens_per_pass, "{:.2f}"),
            _figure(s.acceptance, "{:.0%}"),
            _figure(s.outside, "{:.1%}"),
            _figure(s.foretold, "{:.2f}"),
            "" if s.same_text is None else f"{s.same_text:.0%}",
        )
        for s in summaries
    ]
    return [f"## {workload}, {how}", "", *_table(header, rows), ""]


def _passes(passes: Passes, first: str) -> list[str]:
    """Milliseconds by rows; then as ratios to the engine's own one row and to the first engine."""
    lines = [f"## A pass over so many rows, {passes.context} tokens before them", ""]
    if passes.bandwidth:
        best = max(passes.bandwidth)
        bound = ""
        if passes.bound is not None and passes.weight_bytes is not None:
            bound = (
                f"; a pass reads {passes.weight_bytes / 1e6:.0f} MB of the file's weights, so it "
                f"takes at least {passes.bound * 1e3:.1f} ms"
            )
        lines += [f"Memory read: {best / 1e9:.1f} GB/s at best{bound}.", ""]
    header = (
        "engine",
        "",
        *(str(rows) for rows in passes.rows),
        f"prompt of {passes.prompt_tokens}",
    )

    rows = []
    for engine in passes.seconds:
        mine = {n: f for n in passes.rows if (f := passes.figure(engine, n)) is not None}
        theirs = {n: f for n in passes.rows if (f := passes.figure(first, n)) is not None}
        read = Figure.of(passes.prompt_seconds.get(engine, ()))
        speed = "" if read is None else f"{passes.prompt_tokens / read.median:.0f} tokens/s"
        times = {n: _figure(f, "{:.1f}", 1e3) for n, f in mine.items()}
        rows.append((engine, "ms", *_cells(passes.rows, times), speed))
        if 1 in mine:
            own = {n: f"{f.median / mine[1].median:.2f}" for n, f in mine.items()}
            rows.append((engine, "× own 1", *_cells(passes.rows, own), ""))
        if engine != first and theirs:
            against = {
                n: f"{f.median / theirs[n].median:.2f}" for n, f in mine.items() if n in theirs
            }
            rows.append((engine, f"× {first}", *_cells(passes.rows, against), ""))
    lines += [*_table(header, rows), ""]
    for name, why in passes.failures.items():
        lines += [f"**{name} failed:** {why}", ""]
    return lines


def _cells(rows: Sequence[int], found: Mapping[int, str]) -> list[str]:
    return [found.get(n, "") for n in rows]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table, without the columns that are empty throughout."""
    rows = list(rows)
    kept = [i for i in range(len(header)) if i == 0 or any(row[i] for row in rows)]
    return [
        "| " + " | ".join(header[i] for i in kept) + " |",
        "| " + " | ".join("---" for _ in kept) + " |",
        *("| " + " | ".join(row[i] for i in kept) + " |" for row in rows),
    ]


def _figure(figure: Figure | None, form: str, scale: float = 1.0) -> str:
    if figure is None:
        return ""
    median, low, high = (form.format(x * scale) for x in (figure.median, figure.low, figure.high))
    return median if low == high else f"{median} ({low} to {high})"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
