"""An engine that computes nothing: its times are made up, so tests know what must come out.

plain writes a token every 10 ms; fast writes two, of which one was drafted. `fail` is the name of a
mode that fails, and `die` one that ends the process.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


class Engine:
    def __init__(self, model: str, draft_model: str | None, threads: int, context: int, **settings):
        if settings.get("broken"):
            raise ValueError("this one never starts")
        self.settings = settings
        self.opened = {"model": model, "draft_model": draft_model, "threads": threads}
        print("noise on standard output")

    def info(self) -> dict[str, Any]:
        return {"version": "fake 1", "threads": os.environ.get("OMP_NUM_THREADS"), **self.opened}

    def generate(
        self, mode, num_draft, prompt, max_tokens, temperature, top_p, seed, stop_ids
    ) -> dict[str, Any]:
        if journal := self.settings.get("journal"):
            with Path(journal).open("a") as file:
                file.write(f"{mode}{'' if num_draft is None else num_draft} {temperature} {seed}\n")
        if mode == "fail":
            raise RuntimeError("it cannot be done")
        if mode == "die":
            print("last words", file=sys.stderr)
            os._exit(3)
        if mode == "slow":
            time.sleep(60)
        width = 2 if mode == "fast" else 1
        rounds = max_tokens // width
        tokens = [(seed + i) % 7 for i in range(rounds * width)]
        later = rounds - 1
        return {
            "tokens": tokens,
            "arrivals": [[0.05 + 0.01 * i, width] for i in range(rounds)],
            "passes": later,
            "drafted": later * 2 * (width - 1),
            "accepted": later * (width - 1),
            "model_seconds": 0.0075 * later,
            "expected": [[later * 1.5, later * 0.01], [later * width, later * 0.01]],
        }

    def passes(self, ids, rows, times) -> list[float]:
        return [9.0] + [0.001 * rows * self.settings.get("scale", 1)] * (times - 1)

    def prompt(self, ids) -> float:
        return 0.5
