"""How many tokens it takes to find a fault, and to exclude it, on tiny pairs of models.

    python benchmarks/detection.py --runs 20 > table.md

For every rule of `forerun.certify.tiny`, with the draft's law known to the test and without: the
median and the largest number of tokens, over runs, until the e-value passes 1/level, and the mean
TV per token of what was written. What takes longer than --most is said to. Then how many tokens of
a lossless sampler exclude all named faults of a mean TV.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from forerun.certify import tiny
from forerun.certify.law_test import LawTest
from forerun.certify.observation import Block

TEXTS, LENGTH = 8, 32


def blocks(pair: tiny.Pair, rule: tiny.Rule, seed: int, most: int) -> Iterator[Block]:
    rng, first, tokens = np.random.default_rng(seed), 0, 0
    count = TEXTS
    while tokens < most:
        texts = tiny.sample(pair, count, max_tokens=LENGTH, rng=rng, rule=rule)
        yield from tiny.observed(pair, texts, first=first, at_once=max(TEXTS // 2, count // 8))
        first, tokens = first + count, tokens + count * LENGTH
        count = min(max(TEXTS, first // 4), 4096)


def detected(
    pair: tiny.Pair, rule: tiny.Rule, seed: int, most: int, *, known: bool, level: float
) -> tuple[int | None, float]:
    """Tokens until the fault is found, and seconds."""
    test, start = LawTest(level=level, seed=seed), time.perf_counter()
    for block in blocks(pair, rule, seed, most):
        test.observe_block(block if known else replace(block, q=None))
        if test.fault:
            return test.tokens, time.perf_counter() - start
    return None, time.perf_counter() - start


def mean_tv(pair: tiny.Pair, rule: tiny.Rule) -> float:
    """Per token, of the law given prefix and depth."""
    accept, correct = rule.accept(pair.p, pair.q), rule.correct(pair.p, pair.q)
    kept = rule.drawn(pair.p, pair.q) * accept
    drafted = kept + (1 - kept.sum(axis=1, keepdims=True)) * correct
    tv = 0.5 * np.abs(drafted - pair.p).sum(axis=1)
    bonus = 0.5 * np.abs(rule.bonus(pair.p, pair.q) - pair.p).sum(axis=1)
    total = count = 0.0
    for block in blocks(pair, rule, 1, 20_000):
        row = block.classes["context"]
        assert isinstance(row, np.ndarray)
        at_bonus = np.isnan(block.q[:, 0]) if block.q is not None else np.ones(len(block), bool)
        total += float(np.where(at_bonus, bonus[row], tv[row]).sum())
        count += len(block)
    return total / count


def excluded(pair: tiny.Pair, claim: float, seed: int, most: int, level: float) -> int | None:
    """Tokens until every named fault of mean TV ≥ claim is excluded."""
    test, look = LawTest(level=level, claim=claim, seed=seed), 0
    for block in blocks(pair, tiny.rule("lossless"), seed, most):
        test.observe_block(block)
        if test.tokens > look * 1.05:
            look = test.tokens
            verdict = test.verdict()
            if len(verdict.excluded) == len(verdict.alternatives):
                return test.tokens
    return None


def number(found: int | None, most: int) -> str:
    return f"> {most:,}" if found is None else f"{found:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--most", type=int, default=300_000)
    parser.add_argument("--level", type=float, default=1e-6)
    options = parser.parse_args()
    pair = tiny.random_pair(vocabulary=8, seed=1, cut=0.02)
    print("| fault | mean TV | tokens, q known | largest | tokens, q not known | largest |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, rule in tiny.RULES.items():
        if name == "lossless":
            continue
        rounding = name == "q rounded to bf16"
        own = tiny.rounding_pair() if rounding else pair
        runs = max(options.runs // 5, 3) if rounding else options.runs
        most = 20 * options.most if rounding else options.most
        cells = [f"{mean_tv(own, rule):.2g}"]
        for known in (True, False):
            if rounding and not known:
                cells += ["not measured", ""]
                continue
            times = [
                detected(own, rule, seed, most, known=known, level=options.level)[0]
                for seed in range(runs)
            ]
            ordered = sorted(times, key=lambda t: most + 1 if t is None else t)
            cells += [number(ordered[len(ordered) // 2], most), number(ordered[-1], most)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| mean TV | tokens of a lossless sampler that exclude all named faults (median) |")
    print("| --- | --- |")
    for claim in (0.1, 0.05, 0.02, 0.01):
        found = sorted(
            excluded(pair, claim, seed, options.most, options.level) or options.most + 1
            for seed in range(max(options.runs // 4, 3))
        )
        print(f"| {claim} | {found[len(found) // 2]:,} |", flush=True)


if __name__ == "__main__":
    main()
