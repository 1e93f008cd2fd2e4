"""What a trained head brings on prompts it was not trained on, and on MT-Bench's first questions.

    python benchmarks/head_speed.py MODEL HEAD [--data FOLDER] [--seconds 120] [--tokens 96]
        [--num-draft 4] [--also suffix+head-tree] [--workload code]

As `forerun train` measures at its end: each prompt by plain decoding, suffix, head and suffix+head
in turn. MT-Bench, or another workload of `forerun bench` that is to be measured instead, is read
from the folder that benchmarks/data.py makes.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from forerun.bench.workloads import WORKLOADS, load
from forerun.models.load import load_model
from forerun.train import prompts
from forerun.train.chats import of_prompts
from forerun.train.measure import DRAFTERS, FIXED, TOKENS, measured, worth

PROMPTS = 80


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("head", type=Path)
    parser.add_argument("--data", type=Path, help="the folder of benchmarks/data.py")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each set of prompts")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="most of an answer")
    parser.add_argument("--num-draft", type=int, default=FIXED, help="γ, for tokens a pass")
    parser.add_argument("--also", action="append", default=[], metavar="DRAFTER")
    parser.add_argument("--workload", choices=WORKLOADS, help="its prompts alone")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    sets = {"held-out prompts": list(islice(prompts.held_out(), PROMPTS))}
    if options.workload is not None:
        items = load(WORKLOADS[options.workload], count=PROMPTS, data=options.data)
        sets = {options.workload: [(item.prompt,) for item in items]}
    elif options.data is not None:
        questions = load(WORKLOADS["chat"], count=PROMPTS, data=options.data)
        sets["MT-Bench"] = [(item.prompt,) for item in questions]
    for name, turns in sets.items():
        model = load_model(options.model, threads=options.threads)
        rows = measured(
            model,
            options.head,
            list(of_prompts(turns)),
            seconds=options.seconds,
            tokens=options.tokens,
            num_draft=options.num_draft,
            drafters=(*DRAFTERS, *options.also),
        )
        print(f"\n{name}: {rows[0].tokens} tokens of plain decoding\n")
        print(f"| | | tokens a pass, γ = {options.num_draft} | tokens/s | to plain |")
        print("| --- | --- | --- | --- | --- |")
        for row in rows:
            plain = next(r for r in rows if r.sampling == row.sampling)
            print(
                f"| {row.sampling} | {row.drafter} | {row.tokens_per_pass:.2f} | {row.speed:.1f} "
                f"| {row.speed / plain.speed:.2f} |"
            )
        print("\n" + "\n".join(worth(rows)), flush=True)


if __name__ == "__main__":
    main()
