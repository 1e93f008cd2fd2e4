"""Figures of a report, as SVG: calibration of u, and e-processes over tokens.

The one module of certification that knows matplotlib (extra `plots`).
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from forerun.errors import MissingExtraError

Json = Mapping[str, Any]


def check() -> None:
    """MissingExtraError where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("matplotlib", "plots", "drawing a report") from None


def calibration(case: Json) -> str:
    """The histogram of u, which is flat under a lossless engine, and G(u) − u."""
    counts = np.asarray(case["uniform"], dtype=np.float64)
    total = counts.sum()

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        if not total:
            return
        edges = np.linspace(0, 1, len(counts) + 1)
        expected = total / len(counts)
        left.bar(edges[:-1], counts / expected, 1 / len(counts), align="edge", color="#6b8fb5")
        spread = 3 / math.sqrt(expected)
        left.axhspan(1 - spread, 1 + spread, color="#000000", alpha=0.08, lw=0)
        left.axhline(1, color="#333333", lw=0.8)
        left.set_xlabel("u")
        left.set_ylabel("share of tokens ÷ expected")
        left.set_ylim(0, max(2.0, float(1.1 * counts.max() / expected)))
        difference = np.concatenate([[0.0], np.cumsum(counts) / total]) - edges
        right.plot(edges, difference, color="#6b8fb5")
        right.axhline(0, color="#333333", lw=0.8)
        if case["band"]:
            bound = max(case["band"].values())
            for sign in (-1, 1):
                right.axhline(sign * bound, color="#999999", lw=0.8, ls=":")
        right.set_xlabel("u, the likelier tokens first")
        right.set_ylabel("G(u) − u")

    return _svg(draw, height=2.6)


def processes(case: Json) -> str:
    """log₁₀ of the e-value over tokens, on and (where it was run) off."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for history, label in (
            (case["history"], "speculation on"),
            ((case["off"] or {}).get("history", []), "speculation off"),
        ):
            if history:
                tokens, log_e = zip(*history)
                axes.plot(tokens, [_log10(value) for value in log_e], label=label)
        axes.axhline(
            -math.log10(case["level"]), color="#b5452c", ls="--", lw=0.9, label="threshold"
        )
        axes.set_xlabel("tokens")
        axes.set_ylabel("log₁₀ e-value")
        axes.legend(fontsize="small", frameon=False)

    return _svg(draw, height=2.6)


def _log10(log_e: float) -> float:
    return min(log_e / math.log(10), 300.0)


def _svg(draw: Any, *, height: float) -> str:
    check()
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # the same picture, the same text: no random ids, no date
    with matplotlib.rc_context({"svg.hashsalt": "forerun", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return re.sub(r"^.*?(?=<svg)", "", text, flags=re.DOTALL)
