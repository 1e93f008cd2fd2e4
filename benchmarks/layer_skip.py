"""What a model's own layers are worth as its drafter: accepted tokens, and the time passes take.

    python benchmarks/layer_skip.py model.gguf --clock [--seconds 150]   on a machine that rests
    python benchmarks/layer_skip.py model.gguf [--tokens 48] [--sets 3-9 7-13 …]

With --clock: what passes cost, measured and kept; then `auto` and plain decoding in turn, prompt by
prompt. Without: of each set of layers that is left out, and of γ = 1 to 4, the share of drafted
tokens accepted and tokens per target pass, greedy and at T = 1 (`block`) over a few chats; and by
the costs that were kept the speed over plain decoding, tokens ÷ (target passes + drafting).
"""

from __future__ import annotations

import argparse
import statistics
from time import perf_counter

from forerun import Engine
from forerun.cli.values import number_or_ranges
from forerun.drafters import LayerSkipDrafter
from forerun.models.base import Model
from forerun.models.cost import target_seconds
from forerun.models.load import load_model
from forerun.models.shallow import Shallow

PROMPTS = (
    "Write a short story about a lighthouse keeper who finds a letter.",
    "Explain how photosynthesis works to a child.",
    "Write a Python function that merges two sorted lists, with a docstring.",
    "Give me a recipe for lentil soup and say why each step matters.",
)
SAMPLINGS = {"greedy": {"temperature": 0.0}, "T = 1": {"temperature": 1.0, "verifier": "block"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--clock", action="store_true")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--sets", nargs="*", default=[], metavar="LIST")
    given = parser.parse_args()
    model = load_model(given.model)
    end = perf_counter() + given.seconds
    if given.clock:
        clocked(model, given.tokens, end)
        return
    sets = [number_or_ranges(text) for text in given.sets]
    offered = LayerSkipDrafter()
    offered.check(model)
    shallow = [Shallow(model, one) for one in sets if not isinstance(one, int)]
    acceptance(model, shallow or [*offered.models.values()], given.tokens, end)  # type: ignore[list-item]


def acceptance(model: Model, sets: list[Shallow], tokens: int, end: float) -> None:
    whole = target_seconds(model)
    for one in sets:
        share = target_seconds(one)[0] / whole[0]
        print(
            f"without layers {one.layers}: a pass is {share:.2f} of the whole model's", flush=True
        )
        for said, sampling in SAMPLINGS.items():
            for gamma in (1, 2, 3, 4):
                if perf_counter() > end:
                    return
                engine = Engine(model, LayerSkipDrafter(one.layers), num_draft=gamma)
                done = [
                    engine.generate(
                        [{"role": "user", "content": text}], seed=i, max_tokens=tokens, **sampling
                    )
                    for i, text in enumerate(PROMPTS)
                ]
                drafted, accepted, passes, written = (
                    sum(getattr(each.stats, name) for each in done)
                    for name in ("drafted", "accepted", "rounds", "tokens")
                )
                cost = passes * whole[gamma] + drafted * share * whole[0]
                print(
                    f"  {said}, {gamma}: {accepted / drafted:.2f} accepted,"
                    f" {written / passes:.2f} tokens a pass,"
                    f" by costs {written * whole[0] / cost:.2f} of plain decoding's speed",
                    flush=True,
                )


def clocked(model: Model, tokens: int, end: float) -> None:
    """Plain decoding and `auto`, in turn, prompt by prompt."""
    engines = {"plain": Engine(model), "auto": Engine(model, LayerSkipDrafter())}
    for name, seconds in engines["auto"].costs().draft.items():
        share = seconds[0] / engines["auto"].costs().target[0]
        print(f"{name}: a pass is {share:.3f} of the whole model's", flush=True)
    began = perf_counter()
    for said, sampling in SAMPLINGS.items():
        ratios, drafted = [], 0
        for text in PROMPTS * 4:
            late = (end - began) * (1 + [*SAMPLINGS].index(said)) / len(SAMPLINGS) + began
            if perf_counter() > late and ratios:
                break
            speed = {}
            for name, engine in engines.items():
                options = {**sampling, "max_tokens": tokens}
                start = perf_counter()
                done = engine.generate([{"role": "user", "content": text}], **options)
                speed[name] = len(done.tokens) / (perf_counter() - start)
                drafted += done.stats.drafted
            ratios.append(speed["auto"] / speed["plain"])
        print(
            f"auto, {said}: {statistics.median(ratios):.2f} of plain decoding's speed in the median"
            f" of {len(ratios)} texts ({min(ratios):.2f}–{max(ratios):.2f}), {drafted} drafted",
            flush=True,
        )


if __name__ == "__main__":
    main()
