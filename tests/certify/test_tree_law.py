"""The production loop's exact law with trees: drafters × verifiers × controls × ends × company.

Rounds alone, over larger shapes, are enumerated in tests/verifiers/test_tree_law.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest

import forerun.decode
import forerun.laws
from certify.tables import COMPANY, COSTS, PROMPT, controls, draft_model, target
from forerun.certify import exact_law, plain_law, total_variation
from forerun.drafters import (
    GreedyPlusOneTreeDrafter,
    HybridDrafter,
    JoinedTreeDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    SampledTreeDrafter,
    SuffixTreeDrafter,
)
from forerun.models.tabular import TabularModel
from forerun.numerics.distribution import History
from forerun.numerics.token_tree import TokenTree
from forerun.verifiers import VERIFIERS

EXACT, FAR = 1e-12, 1e-3
TREE_VERIFIERS = [name for name in VERIFIERS if name not in ("rejection", "block")]
TWIG = (-1, -1, 0)
DRAFTERS = {
    "suffix-tree": lambda vocabulary: SuffixTreeDrafter(),
    "tree": lambda vocabulary: LikeliestTreeDrafter(draft_model(vocabulary)),
    "joined-tree": lambda vocabulary: JoinedTreeDrafter(draft_model(vocabulary)),
    "sampled-tree": lambda vocabulary: SampledTreeDrafter(draft_model(vocabulary), shape=TWIG),
    "greedy-plus-one-tree": lambda vocabulary: GreedyPlusOneTreeDrafter(
        draft_model(vocabulary), shape=TWIG
    ),
}
EVERY_SHAPE = {
    "chain": (1, 1, 1),
    "two at the root": (2,),
    "three at the root": (3,),
    "2x2": (2, 2),
    "ragged": (-1, -1, 0, 0, 1, 2),
    "2x2, cut": (2, 2),
}
NODES = {"chain": 3, "two at the root": 2, "three at the root": 3, "2x2, cut": 4}  # else 6
CONTROLS = ["plain", "temperature", "greedy", "top-k", "top-p", "repetition penalty",
            "presence reward", "frequency penalty", "min-tokens"]  # fmt: skip


def distance(verifier, drafter, *, vocabulary=3, eos=False, model=None, num_draft=3, **options):
    model = target(vocabulary, eos=vocabulary - 1 if eos else None) if model is None else model
    law = {name: options.pop(name) for name in ("company", "costs") if name in options}
    common = {"prompt": PROMPT, "max_tokens": 4, **options}
    found = exact_law(model, drafter, verifier=verifier, num_draft=num_draft, **law, **common)
    return total_variation(found, plain_law(model, **common))


@pytest.mark.parametrize("eos", [False, True], ids=["", "EOS"])
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("verifier", [*TREE_VERIFIERS, "auto"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_two_tokens(name, verifier, control, eos):
    options = controls(2)[control]
    assert distance(verifier, DRAFTERS[name](2), vocabulary=2, eos=eos, **options) < EXACT


@pytest.mark.parametrize("control", ["plain", "repetition penalty"])
@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_three_tokens(name, verifier, control):
    options = {**controls(3)[control], "max_tokens": 3, "num_draft": 2}
    assert distance(verifier, DRAFTERS[name](3), eos=True, **options) < EXACT


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_in_company(name, verifier):
    """Another request with a tree of its own in the same passes."""
    others = [(COMPANY[0][0], {**COMPANY[0][1], "num_draft": 2, "max_tokens": 3})]
    helper = DRAFTERS[name](2)
    assert distance(verifier, helper, vocabulary=2, company=others, max_tokens=3) < EXACT


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
def test_beside_other_drafters(verifier):
    for parts in ([NgramDrafter(), DRAFTERS["sampled-tree"](2)],
                  [DRAFTERS["suffix-tree"](2), ModelDrafter(draft_model(2))],
                  [DRAFTERS["greedy-plus-one-tree"](2), ModelDrafter(draft_model(2))]):  # fmt: skip
        helper = HybridDrafter(parts)
        assert distance(verifier, helper, vocabulary=2) < EXACT


@pytest.mark.parametrize("verifier", [*TREE_VERIFIERS, "auto"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_nodes_by_cost(name, verifier):
    options = {"num_draft": "auto", "costs": COSTS, "max_tokens": 4}
    assert distance(verifier, DRAFTERS[name](2), vocabulary=2, **options) < EXACT


def tree_of(name, shape):
    """A drafter of trees of that shape; those that choose their own, with as many nodes."""
    kinds = {"sampled-tree": SampledTreeDrafter, "greedy-plus-one-tree": GreedyPlusOneTreeDrafter}
    if name in kinds:
        return kinds[name](draft_model(2), shape=EVERY_SHAPE[shape])
    return DRAFTERS[name](2)


PAIRS = list(itertools.product(DRAFTERS, EVERY_SHAPE, TREE_VERIFIERS))
AXES = list(itertools.product(controls(2), [False, True], [False, True]))  # EOS, company
each_pair = pytest.mark.parametrize(("name", "shape", "verifier"), PAIRS)


def of_shape(name, shape, verifier, control, eos, company):
    nodes = NODES.get(shape, 6)
    others = [(COMPANY[0][0], {**COMPANY[0][1], "num_draft": 2})] if company else ()
    return distance(
        verifier, tree_of(name, shape), vocabulary=2, eos=eos, num_draft=nodes,
        max_tokens=nodes + 1, company=others, **controls(2)[control],
    )  # fmt: skip


@each_pair
def test_every_shape(name, shape, verifier):
    """Each with one control, with or without an end and company: another one from pair to pair."""
    axes = random.Random(PAIRS.index((name, shape, verifier))).choice(AXES)
    assert of_shape(name, shape, verifier, *axes) < EXACT


@pytest.mark.long
@each_pair
def test_every_shape_with_every_control(name, shape, verifier):
    for axes in AXES:
        assert of_shape(name, shape, verifier, *axes) < EXACT, axes


@pytest.mark.long
@pytest.mark.parametrize("eos", [False, True], ids=["", "EOS"])
@pytest.mark.parametrize("control", ["plain", "top-p", "repetition penalty"])
@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("kind", [SampledTreeDrafter, GreedyPlusOneTreeDrafter])
@pytest.mark.parametrize("shape", [(2, 2), (-1, -1, 0, 0, 1, 2)], ids=["2x2", "ragged"])
def test_whole_trees_of_six(shape, kind, verifier, control, eos):
    helper = kind(draft_model(2), shape=shape)
    options = {**controls(2)[control], "num_draft": 6, "max_tokens": 7}
    assert distance(verifier, helper, vocabulary=2, eos=eos, **options) < EXACT


@pytest.mark.long
@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_three_tokens_deeper(name, verifier, control):
    assert distance(verifier, DRAFTERS[name](3), eos=True, **controls(3)[control]) < EXACT


# ------------------------------------------------------------------ faults


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
def test_a_paths_history_that_misses_one_node(verifier, monkeypatch):
    options = {"vocabulary": 2, "frequency_penalty": 0.8}
    assert distance(verifier, DRAFTERS["sampled-tree"](2), **options) < EXACT
    monkeypatch.setattr(
        forerun.laws,
        "History",
        lambda ids, prompt_length, path: History(tuple(ids), prompt_length, path[:-1]),
    )
    assert distance(verifier, DRAFTERS["sampled-tree"](2), **options) > FAR


class SeesASibling(TabularModel):
    """Of a later sibling the keys of the first are visible as well."""

    def _extend(self, step):
        if step.parents is None or len(step.tokens) < 2:
            return super()._extend(step)
        rows = super()._extend(step)
        before = self._cached[step.slot][: -len(step.tokens)]
        tree = TokenTree(tuple(step.tokens), tuple(step.parents))
        for node, row in enumerate(rows):
            first = tree.children[tree.parents[node]][0]
            if first != node:
                prefix = (*before, *tree.path_tokens(node)[:-1], tree.tokens[first])
                with np.errstate(divide="ignore"):
                    row[:] = np.log(self._row((*prefix, tree.tokens[node])))
        return rows


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
def test_keys_of_a_sibling_that_are_visible(verifier):
    right = target(2)
    wrong = SeesASibling(right._next_law, 2)
    assert distance(verifier, DRAFTERS["sampled-tree"](2), model=right, vocabulary=2) < EXACT
    assert distance(verifier, DRAFTERS["sampled-tree"](2), model=wrong, vocabulary=2) > FAR


@pytest.mark.parametrize("verifier", ["recursive", "traversal", "greedy_plus_one"])
def test_a_drawn_child_that_the_drafter_cuts_by_its_q(verifier):
    class Cutting(SampledTreeDrafter):
        def _children(self, q, count, draw):
            found = super()._children(q, count, draw)
            return [(token, law) for token, law in found if law[token] > 0.4]

    assert distance(verifier, SampledTreeDrafter(draft_model(3), shape=(2,)), num_draft=2) < EXACT
    assert distance(verifier, Cutting(draft_model(3), shape=(2,)), num_draft=2) > FAR


class KeepsTheFirstPath(TabularModel):
    """Compaction that forgets which nodes were accepted: as many of the first ones are kept."""

    def keep(self, slot, length, path=None):
        before, step = self._last.get(slot, (0, None))
        super().keep(slot, length, path)
        if path and before:
            self._cached[slot] = (*self._cached[slot][:before], *step.tokens[: len(path)])


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_a_cache_that_keeps_another_path(name, verifier):
    right = target(2)
    wrong = KeepsTheFirstPath(right._next_law, 2)
    options = {"vocabulary": 2}
    if name == "suffix-tree":  # whose first nodes are a chain
        options |= {"num_draft": 6, "max_tokens": 7}
    assert distance(verifier, DRAFTERS[name](2), model=right, **options) < EXACT
    assert distance(verifier, DRAFTERS[name](2), model=wrong, **options) > FAR


@pytest.mark.parametrize("verifier", TREE_VERIFIERS)
def test_what_follows_an_end_in_the_tree(verifier, monkeypatch):
    """The accepted path goes through an end, and is committed to its last node."""
    options = {"vocabulary": 2, "eos": True}
    assert distance(verifier, Overrunning(draft_model(2), shape=TWIG), **options) < EXACT
    commit = forerun.decode.commit

    def overrun(g, proposal, verdict):
        kinds = commit(g, proposal, verdict)
        tokens = [proposal.tree.tokens[node] for node in verdict.path][len(kinds) :]
        if g.finish_reason == "stop":
            g.ids += tokens[: g.limit - len(g.ids)]
        return kinds

    monkeypatch.setattr(forerun.decode, "commit", overrun)
    monkeypatch.setattr(forerun.decode, "keep", lambda *_: None)  # the text is over
    assert distance(verifier, Overrunning(draft_model(2), shape=TWIG), **options) > FAR


class Overrunning(SampledTreeDrafter):
    """Drafts below an end as well."""

    def propose(self, requests):
        unending = [
            dataclasses.replace(r, params=r.params.replace(eos=frozenset())) for r in requests
        ]
        return super().propose(unending)


@pytest.mark.parametrize("verifier", ["recursive", "traversal", "greedy_plus_one"])
def test_a_tree_with_laws_of_another_temperature(verifier):
    class Misreporting(SampledTreeDrafter):
        def propose(self, requests):
            return [
                dataclasses.replace(p, q=tuple(q**2 / (q**2).sum() for q in p.q))
                for p in super().propose(requests)
            ]

    assert distance(verifier, SampledTreeDrafter(draft_model(3), shape=(2,)), num_draft=2) < EXACT
    assert distance(verifier, Misreporting(draft_model(3), shape=(2,)), num_draft=2) > FAR
