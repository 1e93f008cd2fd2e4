"""Tokens a pass of drafters with a head, each with a γ of its own; speed aside.

    python benchmarks/head_passes.py MODEL HEAD suffix+head:4 suffix+head-tree:15 …
        [--data FOLDER] [--workload code] [--texts 12] [--tokens 256]

Every prompt is answered with every one of them, greedily and at T = 1. Prompts are those that come
with forerun and are held out, or a workload's of `forerun bench`, spread evenly; after each the
sums so far are shown.
"""

from __future__ import annotations

import argparse
import math
from itertools import islice
from pathlib import Path

from forerun.api import load
from forerun.bench import workloads
from forerun.train import prompts

PROMPTS = 80
TEMPERATURES = (0.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("head", type=Path)
    parser.add_argument("drafters", nargs="+", metavar="NAME:γ")
    parser.add_argument("--workload", help="in place of the held-out prompts")
    parser.add_argument("--data", type=Path, help="the folder of benchmarks/data.py")
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=256, help="most of an answer")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.workload:
        (found,) = workloads.named([options.workload])
        items = workloads.load(found, count=options.texts, data=options.data)
        texts = [item.prompt for item in items]
    else:
        held_out = [turns[0] for turns in islice(prompts.held_out(), PROMPTS)]
        texts = [held_out[i * PROMPTS // options.texts] for i in range(options.texts)]
    ways = [(name, int(gamma)) for name, gamma in (one.split(":") for one in options.drafters)]
    engines = {
        name: load(
            options.model,
            drafter=name,
            head=options.head if "head" in name else None,
            threads=options.threads,
        )
        for name, _ in ways
    }
    # tokens and passes of each text
    counts: dict[tuple[tuple[str, int], float], list[tuple[int, int]]]
    counts = {(way, t): [] for way in ways for t in TEMPERATURES}
    for number, text in enumerate(texts, start=1):
        for (way, temperature), seen in counts.items():
            done = engines[way[0]].generate(
                [{"role": "user", "content": text}],
                temperature=temperature,
                max_tokens=options.tokens,
                num_draft=way[1],
            )
            seen.append((len(done.tokens), len(done.trace)))
        print(f"\n{number} texts: tokens a pass (± standard error over texts), tokens", flush=True)
        for way in ways:
            print(f"| {way[0]} | {way[1]} |", end="")
            for t in TEMPERATURES:
                print(f" {shown(counts[way, t])} |", end="")
            print(flush=True)


def shown(seen: list[tuple[int, int]]) -> str:
    """Their ratio, and its error (of a ratio of sums, by its linear part)."""
    tokens, passes = (sum(column) for column in zip(*seen))
    ratio, n = tokens / passes, len(seen)
    spread = sum((a - ratio * b) ** 2 for a, b in seen)
    error = math.sqrt(spread * n / max(n - 1, 1)) / passes
    return f"{ratio:.2f} ± {error:.2f} ({tokens})"


if __name__ == "__main__":
    main()
