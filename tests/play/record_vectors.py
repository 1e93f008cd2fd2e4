"""Record what the library computes, for the playground's own core to be checked against.

    python tests/play/record_vectors.py

writes web/vectors/*.json: inputs beside what the production code makes of them. web/src/core must
find the same numbers, and test_vectors.py fails where the files are not what the code says today.
Statistics come from SciPy, which is the measure for both.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from forerun.certify.enumerate import EnumeratedDraws, Tape, exact_law
from forerun.drafters import ModelDrafter
from forerun.models.tabular import TabularModel
from forerun.numerics.acceptance import acceptance, excess, residual, total_variation
from forerun.numerics.randomness import KeyedDraws, Purpose
from forerun.numerics.token_tree import Drawn, Proposal, TokenTree
from forerun.verifiers import Verdict, Verifier, verifier

sys.path.insert(0, str(Path(__file__).parents[1]))

from play.traces import traces

FOLDER = Path(__file__).resolve().parents[2] / "web" / "vectors"
CHAINS = ("rejection", "block")

Table = dict[str, dict[str, list[float]]]
"""Laws p and q after each prefix, by its tokens joined with commas."""


def table(seed: int, vocabulary: int, depth: int, zeros: bool = False) -> Table:
    """Laws that depend on the whole prefix; with `zeros`, some tokens have p = 0 or q = 0."""
    rng = np.random.default_rng(seed)
    found: Table = {}
    for length in range(depth + 1):
        for prefix in itertools.product(range(vocabulary), repeat=length):
            laws = rng.dirichlet(np.full(vocabulary, 0.8), size=2)
            if zeros:
                laws[0, rng.integers(vocabulary)] = 0.0
                laws[1, rng.integers(vocabulary)] = 0.0
                laws /= laws.sum(axis=1, keepdims=True)
            found[joined(prefix)] = {"p": laws[0].tolist(), "q": laws[1].tolist()}
    return found


def joined(tokens: Sequence[int]) -> str:
    return ",".join(map(str, tokens))


def acceptances() -> Any:
    """min(1, p/q), residuals, TV; q is None for a point mass; `scale` as in block verification."""
    laws = [*table(1, 3, 1).values(), *table(2, 5, 1, zeros=True).values()]
    edges: list[tuple[list[float], list[float] | None]] = [
        ([1.0, 0.0], [0.0, 1.0]),
        ([0.25, 0.75], [0.25, 0.75]),
        ([0.6, 0.4], [0.2, 0.8]),
        ([0.5, 0.3, 0.2], None),
        ([0.0, 1.0], None),
    ]
    pairs = [*((each["p"], each["q"]) for each in laws), *edges]
    return [
        accepted(p, q, token, scale)
        for p, q in pairs
        for token in range(len(p))
        for scale in (1.0, 0.35)
    ]


def accepted(p: list[float], q: list[float] | None, token: int, scale: float) -> dict[str, Any]:
    target, draft = np.array(p), None if q is None else np.array(q)
    return {
        "p": p,
        "q": q,
        "token": token,
        "scale": scale,
        "acceptance": acceptance(target, draft, token),
        "residual": residual(target, draft, token, scale).tolist(),
        "excess": excess(target, draft, token, scale),
        "total_variation": None if draft is None else total_variation(target, draft),
    }


class Recorded(EnumeratedDraws):
    """Coins that were given; the next token is the likeliest of its law, so that it is known."""

    def __init__(self, coins: Sequence[float]) -> None:
        super().__init__(Tape())
        self.coins = coins
        self.law: Any = None

    def accept(self, probability: float, key: Any) -> bool:
        return self.coins[key[0]] < probability

    def draw(self, law: Any, key: Any) -> int:
        return int(np.argmax(law))


def verdicts() -> Any:
    """Chains with given coins: each token's acceptance, what was kept, the law of what follows."""
    rng = np.random.default_rng(3)
    cases = []
    for index in range(24):
        gamma, vocabulary = 1 + index % 4, 2 + index % 3
        p = rng.dirichlet(np.ones(vocabulary), size=gamma + 1)
        q = rng.dirichlet(np.ones(vocabulary), size=gamma)
        point_mass = index % 6 == 5
        tokens = rng.integers(vocabulary, size=gamma).tolist()
        coins = rng.random(gamma).tolist()
        proposal = Proposal(
            tree=TokenTree.chain(tokens),
            q=(None,) * gamma if point_mass else tuple(q),
            drawn=Drawn.DETERMINISTIC if point_mass else Drawn.SAMPLED,
        )
        found = {}
        for name in CHAINS:
            verdict = verifier(name).verify(proposal, list(p), Recorded(coins))
            found[name] = told(verdict) | {"law": np.asarray(verdict.law).tolist()}
        cases.append(
            {
                "tokens": tokens, "coins": coins, "p": p.tolist(),
                "q": None if point_mass else q.tolist(), "verdicts": found,
            }
        )  # fmt: skip
    return cases


def told(verdict: Verdict) -> dict[str, Any]:
    return {
        "path": list(verdict.path),
        "token": verdict.token,
        "kind": verdict.kind,
        "acceptance": list(verdict.acceptance),
    }


def trees() -> Any:
    """Trees whose siblings were drawn without replacement, judged by given coins by `recursive`."""
    rng = np.random.default_rng(9)
    cases = []
    for index in range(12):
        vocabulary, widths = 4 + index % 2, (3, 2) if index % 2 else (2, 2)
        tokens: list[int] = []
        parents: list[int] = []
        q: list[Any] = []
        level = [-1]
        for width in widths:
            below = []
            for parent in level:
                law = rng.dirichlet(np.ones(vocabulary))
                for _ in range(width):
                    token = int(rng.choice(vocabulary, p=law))
                    below.append(len(tokens))
                    tokens.append(token)
                    parents.append(parent)
                    q.append(law)
                    law = law.copy()
                    law[token] = 0.0
                    law /= law.sum()
            level = below
        p = rng.dirichlet(np.ones(vocabulary), size=len(tokens) + 1)
        coins = rng.random(len(tokens)).tolist()
        proposal = Proposal(
            tree=TokenTree(tuple(tokens), tuple(parents)),
            q=tuple(q),
            drawn=Drawn.WITHOUT_REPLACEMENT,
        )
        verdict = verifier("recursive").verify(proposal, list(p), Recorded(coins))
        cases.append(
            {
                "tokens": tokens, "parents": parents, "coins": coins, "p": p.tolist(),
                "q": [law.tolist() for law in q],
                "verdict": told(verdict) | {"law": np.asarray(verdict.law).tolist()},
            }
        )  # fmt: skip
    return cases


def races() -> Any:
    """Keyed noise and the winners of its races, alone and over a tree of drafts."""
    rng = np.random.default_rng(4)
    found = []
    for seed in range(6):
        vocabulary, position = 4, 10 + seed
        tree = TokenTree((0, 1, 2, 3, 1, 0), (-1, -1, 0, 0, 1, 2))
        p = rng.dirichlet(np.ones(vocabulary), size=len(tree) + 1)
        p[0, seed % vocabulary] = 0.0
        p[0] /= p[0].sum()
        draws = KeyedDraws(seed)
        draws.begin_round(0, position)
        noise = [draws.exponentials(position + i, vocabulary).tolist() for i in range(4)]
        proposal = Proposal(tree=tree, q=(None,) * len(tree))
        verdict = verifier("coupled").verify(proposal, list(p), draws)
        found.append(
            {
                "tokens": list(tree.tokens), "parents": list(tree.parents), "p": p.tolist(),
                "exponentials": noise, "winner": draws.race(p[0], (), Purpose.NEXT),
                "verdict": told(verdict),
            }
        )  # fmt: skip
    return found


def rounds() -> Any:
    """The exact law of what a single round emits, and with it the expected number of tokens."""
    found = []
    for seed, vocabulary, gamma, zeros in ((5, 2, 3, False), (6, 3, 2, False), (7, 3, 2, True)):
        laws = table(seed, vocabulary, gamma, zeros)
        for name in CHAINS:
            law = round_law(verifier(name), laws, gamma)
            found.append({"verifier": name, "gamma": gamma, "laws": laws, "law": law})
    return found


def round_law(judge: Verifier, laws: Table, gamma: int) -> dict[str, float]:
    """Probability of every text one round emits, over all outcomes of its randomness."""

    def play(tape: Tape) -> tuple[int, ...]:
        draws = EnumeratedDraws(tape)
        draws.begin_round(0, 0)
        tokens: list[int] = []
        for node in range(gamma):
            q = np.array(laws[joined(tokens)]["q"])
            tokens.append(draws.draw(q, (node, Purpose.DRAFT)))
        before = [joined(tokens[:i]) for i in range(gamma + 1)]
        proposal = Proposal(
            tree=TokenTree.chain(tokens),
            q=tuple(np.array(laws[prefix]["q"]) for prefix in before[:-1]),
            drawn=Drawn.SAMPLED,
        )
        p = [np.array(laws[prefix]["p"]) for prefix in before]
        verdict = judge.verify(proposal, p, draws)
        return (*(tokens[i] for i in verdict.path), verdict.token)

    return enumerated(play)


def enumerated(play: Callable[[Tape], tuple[int, ...]]) -> dict[str, float]:
    found: dict[str, float] = {}
    tape, more = Tape(), True
    while more:
        tape.rewind()
        text = joined(play(tape))
        found[text] = found.get(text, 0.0) + tape.weight
        more = tape.advance()
    return found


def sequences() -> Any:
    """The exact law of whole texts, as the production loop writes them."""
    laws = table(8, 3, 3)
    prompt, most, end = (0,), 3, 2

    def model(name: str) -> TabularModel:
        return TabularModel(lambda prefix: laws[joined(prefix[1:])][name], vocab_size=3, eos=end)

    found = []
    for name in CHAINS:
        law = exact_law(
            model("p"), ModelDrafter(model("q")), verifier=name, num_draft=2, prompt=prompt,
            max_tokens=most,
        )  # fmt: skip
        by_text = {joined(text): weight for text, weight in sorted(law.items())}
        found.append({"verifier": name, "gamma": 2, "end": end, "max_tokens": most, "law": by_text})
    return {"laws": laws, "texts": found}


def expected() -> Any:
    """Tokens a round of the same two laws at every position, counted over all its outcomes."""
    found = []
    for p, q in (([0.6, 0.4], [0.2, 0.8]), ([0.9, 0.1], [0.7, 0.3]), ([0.5, 0.5], [0.5, 0.5])):
        for gamma in range(6):
            laws = {
                joined(prefix): {"p": p, "q": q}
                for length in range(gamma + 1)
                for prefix in itertools.product(range(2), repeat=length)
            }
            law = round_law(verifier("rejection"), laws, gamma)
            tokens = math.fsum(weight * (1 + text.count(",")) for text, weight in law.items())
            alpha = 1 - total_variation(np.array(p), np.array(q))
            found.append({"p": p, "q": q, "alpha": alpha, "gamma": gamma, "tokens": tokens})
    return found


def statistics() -> Any:
    """SciPy's chi-square, binomial quantiles and upper tails."""
    chi = []
    for counts, law in (
        ([6, 4], [0.6, 0.4]), ([590, 410], [0.6, 0.4]), ([50, 30, 20], [0.5, 0.3, 0.2]),
        ([61000, 39000], [0.6, 0.4]), ([10, 20, 30, 40], [0.1, 0.2, 0.3, 0.4]),
        ([25_100, 24_900, 50_000], [0.25, 0.25, 0.5]), ([3, 9, 1, 2, 7], [0.1, 0.3, 0.1, 0.2, 0.3]),
    ):  # fmt: skip
        n = sum(counts)
        result = stats.chisquare(counts, [n * p for p in law])
        chi.append(
            {"counts": counts, "law": law, "statistic": float(result[0]), "p": float(result[1])}
        )
    quantiles = [
        {"level": level, "n": n, "p": p, "k": int(stats.binom.ppf(level, n, p))}
        for n in (1, 10, 1000, 100_000)
        for p in (0.0, 0.001, 0.3, 0.95, 1.0)
        for level in (0.001, 0.4, 0.999)
    ]
    return {"chi_square": chi, "quantiles": [each for each in quantiles if each["k"] >= 0]}


FILES: dict[str, Callable[[], Any]] = {
    "acceptance": acceptances,
    "verdicts": verdicts,
    "trees": trees,
    "races": races,
    "rounds": rounds,
    "sequences": sequences,
    "expected": expected,
    "statistics": statistics,
    "traces": traces,
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, make in FILES.items():
        text = json.dumps(make(), indent=1, allow_nan=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
