"""What is said of a forecast: rows of a table, the advice, the command line to use, JSON.

What this module does not know: how it was found.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from forerun.drafters import with_head, with_model
from forerun.engine.choices import AUTO
from forerun.plan.check import Checked
from forerun.plan.forecast import Forecast, Prediction, Way

HEADER = (
    "DRAFTER", "VERIFIER", "BEST", "ACCEPTED BY DEPTH", "TOKENS/PASS", "TOKENS/S", "× PLAIN", "AUTO"
)  # fmt: skip
CHECKED = ("DRAFTER", "DRAFTS", "PREDICTED", "MEASURED", "OFF", "× PLAIN", "MEASURED", "OFF")


def rows(forecast: Forecast, slots: int) -> list[tuple[str, ...]]:
    """A line for each drafter, the fastest first, and one for plain decoding."""
    ways = [way for way in forecast.ways if way.slots == slots]
    plain = ("none", "–", "–", "–", "1.00", f"{forecast.plain[slots]:.1f}", "1.00", "–")
    lines = [(way.best.rate, _row(way)) for way in ways] + [(forecast.plain[slots], plain)]
    return [line for _, line in sorted(lines, key=lambda pair: -pair[0])]


def _row(way: Way) -> tuple[str, ...]:
    best = way.best
    return (
        way.drafter,
        way.verifier,
        _drafts(best.num_draft, way.tree),
        " ".join(f"{share:.2f}" for share in way.acceptance) or "–",
        f"{best.tokens_per_pass:.2f}",
        f"{best.rate:.1f}",
        f"{way.ratio:.2f}",
        "–" if way.auto is None else f"{way.auto.rate:.1f}",
    )


def _drafts(num_draft: int | str, tree: bool) -> str:
    return AUTO if num_draft == AUTO else f"{num_draft} {'nodes' if tree else 'tokens'}"


def advice(forecast: Forecast, slots: int, command: Sequence[str]) -> str:
    """What to use, in a line, and how."""
    way = forecast.advised(slots)
    at_once = "" if slots == 1 else f" with {slots} at once"
    if way is None:
        said = f"Nothing is faster than plain decoding{at_once} on these prompts"
        return f"{said}: {spelled([*command, '--drafter', 'none'])}"
    best = way.best
    return (
        f"Use {way.drafter}{at_once}: {best.rate:.0f} tokens/s, {way.ratio:.2f} of plain decoding: "
        f"{spelled([*command, *arguments(way.drafter, best, forecast.given)])}"
    )


def arguments(drafter: str, best: Prediction, given: Mapping[str, str]) -> list[str]:
    """Of the command line."""
    found = ["--drafter", drafter]
    if with_model(drafter.split("+")):
        found += ["--draft-model", given.get("model", "DRAFT")]
    if with_head(drafter.split("+")) and given.get("head"):
        found += ["--head", given["head"]]
    return found if best.num_draft == AUTO else [*found, "-k", str(best.num_draft)]


def spelled(command: Sequence[str]) -> str:
    return shlex.join(command)


def not_tried(forecast: Forecast) -> list[str]:
    """A line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in forecast.missing.items():
        reasons.setdefault(why, []).append(name)
    return [f"Not tried: {', '.join(names)}: {why}" for why, names in reasons.items()]


def checked_rows(found: Sequence[Checked]) -> list[tuple[str, ...]]:
    return [
        (
            one.drafter,
            "–" if one.drafter == "none" else str(one.num_draft),
            f"{one.predicted:.1f}",
            f"{one.measured:.1f}",
            f"{one.off:+.1%}",
            f"{one.predicted_ratio:.2f}",
            f"{one.measured_ratio:.2f}",
            f"{one.ratio_off:+.1%}",
        )
        for one in found
    ]


def to_dict(forecast: Forecast, checked: Sequence[Checked] = ()) -> dict[str, Any]:
    return {
        "sampling": dict(forecast.options),
        "texts": [
            {"name": t.name, "prompt_tokens": len(t.request.prompt), "tokens": len(t.output)}
            for t in forecast.texts
        ],
        "plain": {str(slots): rate for slots, rate in forecast.plain.items()},
        "drafters": [_way(way) for way in forecast.ways],
        "not_tried": dict(forecast.missing),
        "rounds": [
            {
                "verifier": verifier,
                "slots": slots,
                "seconds": {str(n): costs.of(n) for n in costs.rows},
            }
            for (verifier, slots), costs in forecast.costs.items()
        ],
        "checked": [
            {
                "drafter": one.drafter,
                "num_draft": one.num_draft,
                "predicted": one.predicted,
                "measured": one.measured,
                "predicted_ratio": one.predicted_ratio,
                "measured_ratio": one.measured_ratio,
            }
            for one in checked
        ],
    }


def _way(way: Way) -> dict[str, Any]:
    return {
        "drafter": way.drafter,
        "verifier": way.verifier,
        "slots": way.slots,
        "tree": way.tree,
        "acceptance": list(way.acceptance),
        "best": _prediction(way.best),
        "fixed": [_prediction(one) for one in way.fixed],
        "auto": None if way.auto is None else _prediction(way.auto),
        "ratio": way.ratio,
        "every": way.stride,
    }


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "num_draft": one.num_draft,
        "tokens_per_second": one.rate,
        "tokens_per_pass": one.tokens_per_pass,
        "drafted_per_pass": one.drafted,
    }
