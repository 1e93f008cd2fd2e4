"""A picture of a forecast: predicted tokens per second by γ, a line for each drafter.

The one module of planning that knows matplotlib (extra `plots`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forerun.errors import MissingExtraError, OptionError
from forerun.plan.forecast import Forecast


def check(path: Path) -> None:
    """MissingExtraError where matplotlib is not installed; OptionError for what is no .svg."""
    if path.suffix.lower() != ".svg":
        raise OptionError(f"--plot draws SVG: give a file such as plan.svg, not {path}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("matplotlib", "plots", "drawing a plot") from None


def draw(forecast: Forecast, path: Path, title: str) -> None:
    """An SVG file, with a panel for each number of requests at once."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    panels = list(forecast.plain)
    figure = Figure(figsize=(9, 4.2 * len(panels)), layout="constrained")
    FigureCanvasSVG(figure)
    for number, slots in enumerate(panels, start=1):
        _panel(figure.add_subplot(len(panels), 1, number), forecast, slots)
    figure.suptitle(title)
    fresh = path.with_name(f".{path.name}.part")
    try:
        figure.savefig(fresh, format="svg")
        fresh.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OptionError(f"--plot {path} cannot be written: {reason}") from None


def _panel(axes: Any, forecast: Forecast, slots: int) -> None:
    for way in (way for way in forecast.ways if way.slots == slots):
        at = [one.num_draft for one in way.fixed]
        (line,) = axes.plot(at, [one.rate for one in way.fixed], "o-", label=way.drafter)
        if way.auto is not None:
            axes.axhline(way.auto.rate, color=line.get_color(), ls="--", lw=0.8)
    axes.axhline(forecast.plain[slots], color="grey", ls=":", label="plain")
    axes.set_xlabel("drafted tokens, or nodes; dashed: auto")
    axes.set_ylabel("tokens per second")
    axes.set_title("one request" if slots == 1 else f"{slots} requests at once")
    axes.legend(fontsize="small")
