"""Cost of a verification: the laws of γ + 1 rows, accept, residual, draw. One core, no model.

    python benchmarks/verification.py [--vocabulary 152000] [--rows 8] [--top-p 0.95]

Prints medians (and ranges) in milliseconds over interleaved repeats, for logits as peaked as a
language model's and for flat ones. The drafts are drawn from a law near the target's, so that some
are accepted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import KeyedDraws, fresh_sampler, racing_sampler
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree
from forerun.sampling import SamplingParams
from forerun.verifiers import verifier


def logits_of(shape: tuple[int, int], kind: str, rng: np.random.Generator) -> np.ndarray:
    """`peaked`: a heavy upper tail as language models have; `flat`: normal noise of scale 1."""
    noise = rng.normal(size=shape).astype(np.float32)
    return noise + 3 * rng.gumbel(size=shape).astype(np.float32) if kind == "peaked" else noise


def one(
    name: str, p_logits: np.ndarray, q_logits: np.ndarray, params: SamplingParams, seed: int
) -> float:
    """Seconds of one verification; drafting is done before the clock starts."""
    rows = len(p_logits)
    nothing = History((0,), 1)
    judge = verifier(name)
    draws = KeyedDraws(seed)
    draws.begin_round(0, 1)
    sample = racing_sampler(draws) if judge.races else fresh_sampler(draws)
    q = tuple(law(row, params, nothing) for row in q_logits[: rows - 1])
    tokens: list[int] = []
    for i, q_i in enumerate(q):
        tokens.append(sample(q_i, i, tuple(tokens)))
    proposal = Proposal(tree=TokenTree.chain(tokens), q=q, drawn=Drawn.SAMPLED)
    start = time.perf_counter()
    p = [law(row, params, nothing) for row in p_logits]
    judge.verify(proposal, p, draws)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=152_000)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    times: dict[tuple[str, str, float], list[float]] = {}
    shape = (options.rows, options.vocabulary)
    laws = {}
    for kind in ("peaked", "flat"):
        p = logits_of(shape, kind, rng)
        laws[kind] = p, p + 0.3 * rng.normal(size=shape).astype(np.float32)
    for seed in range(options.repeats + 3):
        for kind, (p, q) in laws.items():
            for name in ("rejection", "block", "coupled"):
                for top_p in (options.top_p, 1.0):
                    seconds = one(name, p, q, SamplingParams(top_p=top_p), seed)
                    if seed >= 3:
                        times.setdefault((name, kind, top_p), []).append(seconds * 1e3)
    print(
        f"V = {options.vocabulary}, {options.rows} rows, float32, one core; ms: median (min to max)"
    )
    for (name, kind, top_p), ms in times.items():
        print(
            f"{name:10} {kind:7} top-p {top_p:<5} "
            f"{statistics.median(ms):6.2f} ({min(ms):.2f} to {max(ms):.2f})"
        )


if __name__ == "__main__":
    main()
