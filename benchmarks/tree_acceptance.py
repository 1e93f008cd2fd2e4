"""Tokens a pass by verifier and shape, at equal numbers of nodes, of a real target and draft model.

    python benchmarks/tree_acceptance.py TARGET DRAFT [--nodes 6] [--tokens 64] [--every 2]
    python benchmarks/tree_acceptance.py --pays 0.82,0.09,0.04 1:52,4:61,8:73,16:128 1:21,16:50

The target writes a text for each prompt (T = 1, top-p 0.95). At every other place all drafters
draft from the same prefix, and all verifiers judge; nothing is committed, so that all are compared
on the same prefixes. Coins are tossed COINS times for each draft. Printed are means and standard
errors over places, what share was accepted of the root's children beside the most that can be, and
chances by rank. `--pays` says of chances by rank, and milliseconds of target and draft passes by
rows, what the best chain and the best tree of each depth are worth, as a multiple of plain speed.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from forerun.drafters import (
    GreedyPlusOneTreeDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    SampledTreeDrafter,
)
from forerun.drafters.base import DraftRequest
from forerun.models.base import Model, Step
from forerun.models.load import load_model
from forerun.numerics import transport
from forerun.numerics.distribution import History, law
from forerun.numerics.randomness import KeyedDraws, Purpose, host, racing_sampler
from forerun.numerics.token_tree import ROOT, Proposal
from forerun.numerics.tree_shape import USUAL, best, depths_of, growth
from forerun.pace import Bill, Costs, Pace, reads
from forerun.sampling import SamplingParams
from forerun.verifiers import verifier

COINS = 16
PROMPTS = (
    "Write a Python function that merges two sorted lists.",
    "Explain in a few sentences why the sky is blue.",
    "Write a Python class for a bank account with deposit and withdraw.",
    "Tell me a short story about a lighthouse.",
)
KINDS = {
    "chain": (ModelDrafter, ("rejection", "block", "coupled")),
    "drawn tree": (SampledTreeDrafter, ("recursive", "traversal", "coupled")),
    "greedy plus one": (GreedyPlusOneTreeDrafter, ("greedy_plus_one", "traversal")),
    "likeliest tree": (LikeliestTreeDrafter, ("coupled",)),
}
FIXED = {"likeliest tree"}  # nothing of it is drawn, so that races of other seeds judge it too


class Bench:
    def __init__(self, target: Model, draft: Model, nodes: int) -> None:
        self.target, self.nodes = target, nodes
        self.slot = target.open()
        self.drafters = {name: made(draft) for name, (made, _) in KINDS.items()}
        for drafter in self.drafters.values():
            drafter.check(target)
        self.params = SamplingParams(temperature=1.0, top_p=0.95, eos=frozenset(target.eos))
        self.found: dict[str, list[float]] = defaultdict(list)
        self.first: dict[str, list[float]] = defaultdict(list)
        self.ranks: dict[str, list[tuple[int, bool]]] = defaultdict(list)

    def laws(self, ids: list[int], start: int, proposal: Proposal) -> list[Any]:
        tree = proposal.tree
        parents = (-1, *(parent + 1 for parent in tree.parents))
        tokens = (*ids[self.target.length(self.slot) :], *tree.tokens)
        lacking = len(tokens) - len(tree) - 1
        parents = (*range(-1, lacking), *(parent + lacking for parent in parents[1:]))
        step = Step(slot=self.slot, tokens=tokens, parents=parents, rows=len(tree) + 1)
        (rows,) = self.target.extend([step])
        self.target.keep(self.slot, len(ids) - 1)
        return [
            law(row, self.params, History(ids, start, tree.path_tokens(node)), None)
            for node, row in zip(range(ROOT, len(tree)), rows)
        ]

    def text(self, prompt: list[int], count: int) -> Iterator[list[int]]:
        """The prompt and what the target writes, token by token."""
        draws, ids = KeyedDraws(0), list(prompt)
        for index in range(count):
            draws.begin_round(index, len(ids))
            (p,) = self.laws(ids, len(prompt), Proposal())
            ids.append(draws.race(p, (), Purpose.NEXT))
            if ids[-1] in self.params.end_ids:
                return
            yield list(ids)

    def place(self, ids: list[int], start: int, seed: int) -> None:
        """One round of each, from `ids`."""
        for kind, (_, verifiers) in KINDS.items():
            draws = KeyedDraws(seed)
            draws.begin_round(0, len(ids))
            request = DraftRequest(
                slot=0,
                ids=ids,
                prompt_length=start,
                num_draft=self.nodes,
                params=self.params,
                sample=racing_sampler(draws),
            )
            (proposal,) = self.drafters[kind].propose([request])
            p = self.laws(ids, start, proposal)
            for name in verifiers:
                self.judge(kind, name, proposal, p, seed, len(ids))
            self.bounds(kind, proposal, p[0])

    def judge(
        self, kind: str, name: str, proposal: Proposal, p: list[Any], seed: int, position: int
    ) -> None:
        same = name == "coupled" and kind not in FIXED  # the drafter's race was of this seed
        tree, lengths, entered = proposal.tree, [], []
        for coin in range(1 if same else COINS):
            draws = KeyedDraws(seed if same else (seed << 8) + coin + 1)
            draws.begin_round(0, position)
            path = verifier(name).verify(proposal, p, draws).path
            lengths.append(1 + len(path))
            entered.append(bool(path))
            for node, taken in zip((ROOT, *path), (*path, None)):
                for rank, child in enumerate(tree.children_of(node)):
                    self.ranks[f"{kind}, {name}"].append((rank, child == taken))
        self.found[f"{kind}, {name}"].append(float(np.mean(lengths)))
        self.first[f"{kind}, {name}"].append(float(np.mean(entered)))

    def bounds(self, kind: str, proposal: Proposal, p: Any) -> None:
        count = len(proposal.tree.children_of(ROOT))
        q = proposal.q[0] if proposal else None
        if kind == "chain" and q is not None:
            self.first["chain, bound"].append(transport.independent(dense(p), dense(q), 1))
            plus = transport.greedy_plus_one(dense(p), dense(q), 2)
            self.first["greedy plus one, bound of two"].append(plus)
        if kind == "drawn tree" and q is not None:
            bound = transport.without_replacement(dense(p), dense(q), count)
            self.first["drawn tree, bound"].append(bound)


def dense(p: Any) -> Any:
    return np.asarray(host(p), dtype=np.float64)


def table(title: str, rows: dict[str, list[float]]) -> None:
    print(f"\n| {title} | mean | standard error |\n| --- | --- | --- |")
    for name, values in rows.items():
        error = np.std(values) / math.sqrt(len(values))
        print(f"| {name} | {np.mean(values):.3f} | {error:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", nargs="?")
    parser.add_argument("draft", nargs="?")
    parser.add_argument("--pays", nargs=3, metavar=("RANKS", "TARGET", "DRAFT"))
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.pays:
        pays(*options.pays)
        return
    models = [
        load_model(path, threads=options.threads, context=1024)
        for path in (options.target, options.draft)
    ]
    bench = Bench(*models, options.nodes)
    print(f"{options.nodes} nodes; of a tree {best(USUAL, options.nodes)}")
    places = 0
    for number, prompt in enumerate(PROMPTS):
        ids = bench.target.tokenizer.encode_chat([{"role": "user", "content": prompt}])
        for drafter in bench.drafters.values():
            drafter.begin(0, ids)
        bench.target.keep(bench.slot, 0)
        before = len(ids)
        for i, text in enumerate(bench.text(ids, options.tokens)):
            if i % options.every == 0:
                for drafter in bench.drafters.values():
                    drafter.observe(0, text[before:])
                before = len(text)
                bench.place(text, len(ids), 1000 * number + i)
                places += 1
                if places % 20 == 0:
                    report(bench, places)
        for drafter in bench.drafters.values():
            drafter.end(0)
    report(bench, places)


def pays(ranks: str, target: str, draft: str) -> None:
    rows = np.arange(1, 17)
    tables = [
        tuple(np.interp(rows, *zip(*(map(float, pair.split(":")) for pair in ms.split(",")))))
        for ms in (target, draft)
    ]
    chances = [float(chance) for chance in ranks.split(",")]
    pace = Pace(Costs(target=tables[0], draft={"model": tables[1]}, fixed=True))
    print("| depth | best chain | best tree | its levels |\n| --- | --- | --- | --- |")
    for depth in (1, 2, 3, 4, 6):
        chain = max(worth(pace, chances[:1], nodes, depth) for nodes in range(1, depth + 1))
        tree = max(worth(pace, chances, nodes, depth) for nodes in range(1, 16))
        shape = growth(chances, tree[1], depth)[0]
        levels = [depths_of(shape).count(level) for level in range(1, max(depths_of(shape)) + 1)]
        print(f"| {depth} | {chain[0]:.2f} | {tree[0]:.2f} | {' + '.join(map(str, levels))} |")


def worth(pace: Pace, chances: list[float], nodes: int, depth: int) -> tuple[float, int]:
    """Speed as a multiple of plain decoding, and the number of nodes."""
    shape, survival = growth(chances, nodes, depth)
    drafting = Bill(pace)
    drafting.add_all("model", reads(shape, len(shape)), 1)
    seconds = pace.costs.target[len(shape)] + drafting.seconds
    return (1 + sum(survival)) / seconds * pace.costs.target[0], len(shape)


def report(bench: Bench, places: int) -> None:
    print(f"\n# {places} places")
    table("tokens a pass", bench.found)
    table("accepted of the root's children", bench.first)
    print("\n| chance by rank | 1st | 2nd | 3rd |\n| --- | --- | --- | --- |")
    for name, seen in bench.ranks.items():
        shares = [
            f"{np.mean(taken):.3f}" if (taken := [t for r, t in seen if r == rank]) else ""
            for rank in range(3)
        ]
        print(f"| {name} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
