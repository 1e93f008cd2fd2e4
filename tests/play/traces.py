"""Traces of real rounds, with every field that a record can have, for the page to read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from forerun.drafters import ModelDrafter, NgramDrafter
from forerun.engine import Engine
from forerun.models.tabular import TabularModel
from forerun.trace import SCHEMA, Round, Times

TIMES = Times(draft=0.001, target=0.02, verify=0.0005)  # measured ones differ each time
LAWS = ([0.5, 0.25, 0.25, 0.0], [0.125, 0.125, 0.25, 0.5], [0.0, 0.875, 0.125, 0.0])
DRAFTS = ([0.25, 0.25, 0.25, 0.25], [0.5, 0.125, 0.25, 0.125])

RUNS: dict[str, dict[str, Any]] = {
    "rejection": {"verifier": "rejection", "num_draft": 3, "trace_heads": True},
    "block, with logprobs": {"verifier": "block", "num_draft": 2, "logprobs": 2},
    "coupled": {"verifier": "coupled", "num_draft": 2, "trace_heads": True},
    "γ by control": {"verifier": "coupled", "num_draft": "auto"},
    "plain": {"num_draft": 0, "trace_heads": True},
}


def traces() -> Any:
    """Records as they are written, and what statistics make of them."""
    target = TabularModel(lambda prefix: LAWS[sum(prefix) % 3], 4)
    draft = TabularModel(lambda prefix: DRAFTS[sum(prefix) % 2], 4)
    found: dict[str, Any] = {"schema": SCHEMA, "fields": fields(), "runs": []}
    for drafter in (ModelDrafter(draft), NgramDrafter()):
        for name, options in RUNS.items():
            engine = Engine(target, drafter, costs=[0.02, 0.021, 0.022, 0.03, 0.04])
            done = engine.generate([0, 1, 2, 0, 1, 2], seed=3, max_tokens=12, **options)
            rounds = [dataclasses.replace(record, times=TIMES) for record in done.trace]
            found["runs"].append(
                {
                    "name": f"{name}, {drafter.name}",
                    "rounds": [json.loads(record.to_json()) for record in rounds],
                    "stats": {
                        "rounds": done.stats.rounds,
                        "tokens": done.stats.tokens,
                        "drafted": done.stats.drafted,
                        "accepted": done.stats.accepted,
                        "corrected": done.stats.corrected,
                        "bonus": done.stats.bonus,
                        "tokensPerPass": done.stats.tokens_per_pass,
                    },
                }
            )
    return found


def fields() -> list[str]:
    """Those of a record; the page must know them all."""
    return sorted(field.name for field in dataclasses.fields(Round))
