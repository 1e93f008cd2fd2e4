"""What is said of a run when it is over: as a table, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from forerun.train.measure import FIXED, worth
from forerun.train.run import Outcome


def as_dict(outcome: Outcome) -> dict[str, Any]:
    return {
        "head": str(outcome.head),
        "texts": outcome.texts,
        "tokens": outcome.tokens,
        "updates": outcome.updates,
        "epochs": round(outcome.epochs, 2),
        "acceptance": {
            name: {
                "by_depth": [round(a, 4) for a in one.by_depth],
                "tokens_per_pass": round(one.tokens_per_pass, 3),
                "places": one.tokens,
            }
            for name, one in outcome.acceptance.items()
        },
        "measured": [
            {
                "drafter": row.drafter,
                "sampling": row.sampling,
                "tokens": row.tokens,
                "tokens_per_second": round(row.speed, 1),
                f"tokens_per_pass_of_{FIXED}": round(row.tokens_per_pass, 3),
            }
            for row in outcome.rows
        ],
        "worth": worth(outcome.rows),
    }


def write(path: Path, outcome: Outcome) -> None:
    """At once, or not at all."""
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(as_dict(outcome), indent=2) + "\n")
    fresh.replace(path)


def accepted(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Header and rows: acceptance by depth, on texts that were not trained on."""
    depth = len(next(iter(outcome.acceptance.values())).survival)
    header = ["HELD OUT", *(f"DEPTH {k}" for k in range(1, depth + 1)), "TOKENS A PASS"]
    return header, [
        [name, *(f"{a:.3f}" for a in one.by_depth), f"{one.tokens_per_pass:.2f}"]
        for name, one in outcome.acceptance.items()
    ]


def speeds(outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Header and rows: what the engine did."""
    plain = {row.sampling: row.speed for row in outcome.rows if row.drafter == "plain"}
    header = ["SAMPLING", "DRAFTER", f"TOKENS A PASS (\u03b3 = {FIXED})", "TOKENS/S", "TO PLAIN"]
    return header, [
        [
            row.sampling,
            row.drafter,
            f"{row.tokens_per_pass:.2f}",
            f"{row.speed:.1f}",
            f"{row.speed / plain[row.sampling]:.2f}" if plain[row.sampling] else "",
        ]
        for row in outcome.rows
    ]
