"""A picture of a record: tokens per second by workload, and the cost of a pass by rows.

The one module that knows matplotlib (extra `plots`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forerun.bench.figures import summarise
from forerun.bench.passes import Passes
from forerun.bench.plan import Record
from forerun.errors import MissingExtraError

FILE = "report.svg"


def check() -> None:
    """MissingExtraError where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("matplotlib", "plots", "drawing a plot") from None


def draw(record: Record, folder: Path) -> Path | None:
    """report.svg in `folder`; None where there is nothing to draw."""
    check()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    panels = [_speeds] if record.runs else []
    panels += [_passes] if record.passes is not None and record.passes.seconds else []
    if not panels:
        return None
    figure = Figure(figsize=(9, 4.2 * len(panels)), layout="constrained")
    FigureCanvasSVG(figure)
    for number, panel in enumerate(panels, start=1):
        panel(figure.add_subplot(len(panels), 1, number), record)
    path = folder / FILE
    fresh = folder / f".{FILE}.part"
    figure.savefig(fresh, format="svg")
    fresh.replace(path)
    return path


def _speeds(axes: Any, record: Record) -> None:
    """A group of bars for each workload and sampling; lines show the range over repeats."""
    summaries = [
        s
        for s in summarise(record.runs, [system.name for system in record.plan.systems])
        if s.decode is not None
    ]
    groups = list(dict.fromkeys((s.workload, s.sampling) for s in summaries))
    names = list(dict.fromkeys(s.system for s in summaries))
    width = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        mine = [s for s in summaries if s.system == name]
        at = [groups.index((s.workload, s.sampling)) + i * width for s in mine]
        found = [s.decode for s in mine if s.decode is not None]
        below = [f.median - f.low for f in found]
        above = [f.high - f.median for f in found]
        heights = [f.median for f in found]
        axes.bar(at, heights, width, yerr=[below, above], label=name, error_kw={"lw": 0.8})
    axes.set_xticks(
        [g + 0.4 - width / 2 for g in range(len(groups))], [f"{w}, {s}" for w, s in groups]
    )
    axes.set_ylabel("tokens per second")
    axes.set_title(record.plan.model)
    axes.legend(fontsize="small")


def _passes(axes: Any, record: Record) -> None:
    passes = record.passes
    assert isinstance(passes, Passes)
    for engine in passes.seconds:
        known = [(n, f) for n in passes.rows if (f := passes.figure(engine, n)) is not None]
        axes.plot([n for n, _ in known], [f.median * 1e3 for _, f in known], "o-", label=engine)
    if passes.bound is not None:
        axes.axhline(passes.bound * 1e3, color="grey", ls=":", label="bytes ÷ bandwidth")
    axes.set_xticks(passes.rows)
    axes.set_xlabel("rows of a pass")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize="small")
