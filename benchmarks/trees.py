"""Expected tokens of a pass by verifier and shape: enumerated over random laws of three tokens.

    python benchmarks/trees.py [LAWS]        from the repository's root; a table in Markdown

Laws depend on the whole prefix (Dirichlet, 0.8). `coupled` depends on shared noise and is sampled,
SEEDS seeds for each law. At equal depth the order that theory asks for is asserted for each.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from forerun.certify.enumerate import EnumeratedDraws
from forerun.numerics import transport
from forerun.numerics.randomness import KeyedDraws, Purpose
from forerun.numerics.token_tree import Drawn
from forerun.numerics.tree_shape import widths
from forerun.verifiers import verifier
from verifiers.trees import Laws, after, draft, likeliest, rounds

SEEDS = 50
CHAIN2, CHAIN6, TREE = widths((1, 1)), widths((1,) * 6), widths((2, 2))


def _last_draw_untaken(draws: EnumeratedDraws) -> None:
    """What a pass's last token is does not change how many there are."""
    draw = draws.draw

    def drawn(law, key):
        return int(np.argmax(law)) if key[1] is Purpose.NEXT else draw(law, key)

    draws.draw = drawn


def enumerated(laws, shape, drawn, name):
    prepare = None if name == "greedy_plus_one" else _last_draw_untaken
    found = rounds(laws, shape, drawn, verifier(name), prepare=prepare)
    return sum(weight * (1 + len(verdict.path)) for weight, _, verdict in found)


def chained(laws, shape, name):
    """Of a chain the coins need not be enumerated: `rejection` accepts i tokens with Π a_j, `block`
    where one of the coins h_i, h_i+1, … passes."""

    def prepare(draws):
        _last_draw_untaken(draws)
        draws.accept = lambda probability, key: name == "rejection"

    total = 0.0
    for weight, _, verdict in rounds(laws, shape, Drawn.SAMPLED, verifier(name), prepare=prepare):
        a = np.array(verdict.acceptance)
        if name == "rejection":
            total += weight * (1 + np.cumprod(a).sum())
        else:
            total += weight * (1 + (1 - np.cumprod((1 - a)[::-1])).sum())
    return total


def raced(laws, shape, drawn, children=None):
    """Tokens of a pass under `coupled`, whose drafter races with the target's noise."""

    class Racing(KeyedDraws):
        path = ()

        def draw(self, law, key):
            return self.race(law, self.path, Purpose.DRAFT)

    total = 0
    for seed in range(SEEDS):
        draws = Racing(seed)
        draws.begin_round(0, 1)

        def at(prefix, draws=draws):
            draws.path = prefix
            return laws.q(prefix)

        one = type("Seen", (), {"q": staticmethod(at), "p": staticmethod(laws.p)})
        proposal = draft(one, shape, drawn, draws, children)
        verdict = verifier("coupled").verify(proposal, after(laws, proposal), draws)
        total += 1 + len(verdict.path)
    return total / SEEDS


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    replaced, plus, sampled = Drawn.WITHOUT_REPLACEMENT, Drawn.GREEDY_PLUS_ONE, Drawn.SAMPLED
    rows: dict[str, list[float]] = {}
    first: dict[str, list[float]] = {}
    for seed in range(count):
        laws = Laws(seed)
        found = {
            "chain of 2, rejection": chained(laws, CHAIN2, "rejection"),
            "chain of 2, block": chained(laws, CHAIN2, "block"),
            "chain of 2, coupled": raced(laws, CHAIN2, sampled),
            "2×2, recursive": enumerated(laws, TREE, replaced, "recursive"),
            "2×2, traversal": enumerated(laws, TREE, replaced, "traversal"),
            "2×2, greedy plus one": enumerated(laws, TREE, plus, "greedy_plus_one"),
            "2×2, coupled, drawn by race": raced(laws, TREE, replaced),
            "2×2, coupled, likeliest": raced(laws, TREE, Drawn.DETERMINISTIC, likeliest),
            "chain of 6, rejection": chained(laws, CHAIN6, "rejection"),
            "chain of 6, block": chained(laws, CHAIN6, "block"),
            "chain of 6, coupled": raced(laws, CHAIN6, sampled),
        }
        a, b = found["chain of 2, rejection"], found["chain of 2, block"]
        r, t = found["2×2, recursive"], found["2×2, traversal"]
        for more, less in ((t, r), (r, a), (t, b), (b, a)):
            assert more >= less - 1e-12, seed
        for name, tokens in found.items():
            rows.setdefault(name, []).append(tokens)
        p, q = laws.p(()), laws.q(())
        for name, value in (
            ("one child: 1 − TV", transport.independent(p, q, 1)),
            ("two independent", transport.independent(p, q, 2)),
            ("two without replacement", transport.without_replacement(p, q, 2)),
            ("greedy plus one", transport.greedy_plus_one(p, q, 2)),
        ):
            first.setdefault(name, []).append(value)
    print(f"| {count} random laws | tokens a pass | standard error |\n| --- | --- | --- |")
    for name, values in rows.items():
        print(f"| {name} | {np.mean(values):.3f} | {np.std(values) / math.sqrt(count):.3f} |")
    print("\n| bound of the first node | accepted at most |\n| --- | --- |")
    for name, values in first.items():
        print(f"| {name} | {np.mean(values):.3f} |")
    better = np.mean(np.array(rows["chain of 6, block"]) > np.array(rows["2×2, traversal"]))
    print(f"\nThe chain of 6, block, brings more than the 2×2 tree, traversal, on {better:.0%}.")


if __name__ == "__main__":
    main()
