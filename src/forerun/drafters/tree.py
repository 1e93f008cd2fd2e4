"""A smaller model drafts a tree, level by level, for verifiers that judge several guesses at once.

    level 1   one pass over what each slot has not read yet     q after the text → its children
    level 2   one pass over the tree so far                     q after each of them → theirs   …

    sampled-tree           children drawn from q without replacement; for `traversal`, `recursive`
    greedy-plus-one-tree   the likeliest and one drawn from the rest; for `greedy_plus_one`
    tree                   no draws: the nodes of the highest cumulative draft probability;
                           for `coupled`   (EAGLE-2: Li et al. 2024, arXiv 2406.16858, section 4.1)

`num_draft` is the number of nodes. Those whose tokens are drawn have a place in a shape, known
before anything is drawn (the request's, where `control` chose one): whether a token is drafted must
not depend on what it is. That is why only `tree`, of which nothing is drawn, chooses nodes by their
probability; of a request's shape it takes the size and the depth.

The draft model reads each level in a pass over the whole tree, of which nothing stays in its cache:
what was accepted it reads again in the next round, as part of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from forerun.drafters.base import DrafterTraits, DraftRequest, Outlook, Trees
from forerun.drafters.children import Child, Draw, greedy_plus_one, without_replacement
from forerun.drafters.lookup import whole
from forerun.drafters.model import Chain, ModelDrafter
from forerun.models.base import Model, Step
from forerun.numerics.distribution import History
from forerun.numerics.likeliest import head
from forerun.numerics.token_tree import NOTHING, ROOT, Drawn, Proposal, TokenTree
from forerun.numerics.tree_shape import USUAL, Shape, best, checked_shape, depths_of


@dataclass(eq=False)
class Growing(Chain):
    """One request's tree in the making. Nodes stand level by level."""

    parents: list[int] = field(default_factory=list)
    level: list[int] = field(default_factory=lambda: [ROOT])  # the nodes whose laws come next
    places: list[int] = field(default_factory=list)  # each node's in the shape
    scores: list[float] = field(default_factory=list)  # each node's cumulative probability
    depth: int = 0

    def path(self, node: int) -> tuple[int, ...]:
        """Tokens down to `node`."""
        found: list[int] = []
        while node != ROOT:
            found.append(self.tokens[node])
            node = self.parents[node]
        return tuple(reversed(found))

    def add(self, parent: int, token: int, q: Any) -> None:
        self.tokens.append(token)
        self.parents.append(parent)
        self.q.append(q)


class TreeDrafter(ModelDrafter):
    """What the tree drafters share; a subclass says how a level is grown (`_grow`)."""

    trees: Trees | None = Trees()  # None: a shape that is a chain

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        return replace(super().outlook(slot, length, most), trees=self.trees)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        trees = [self._growing(request) for request in requests]
        rows: list[tuple[Any, Any]] = self._catch_up([tree for tree in trees if tree is not None])
        begun = [tree for tree, _ in rows]
        while rows:
            going = [tree for tree, logits in rows if self._grown(tree, logits)]
            for tree in going:
                self._cut(tree.state)
            rows = self._pass([(tree, self._whole(tree)) for tree in going])
        for tree in begun:
            self._cut(tree.state)
        return [NOTHING if tree is None else self._made(tree) for tree in trees]

    def _growing(self, request: DraftRequest) -> Growing | None:
        chain = self._chain(request)
        if chain is None:
            return None
        return Growing(
            request=chain.request, params=chain.params, state=chain.state, most=chain.most
        )

    def _whole(self, tree: Growing) -> Step:
        """All of the tree so far, with rows for its last level. A token that the draft model does
        not have has no children, so that anything may be read in its place."""
        tokens = [min(token, self._readable - 1) for token in tree.tokens]
        return Step(
            slot=tree.slot, tokens=tokens, parents=tuple(tree.parents), rows=len(tree.level)
        )

    def _grown(self, tree: Growing, logits: Any) -> bool:
        """Grow the next level; whether another is to follow it."""
        laws = {node: self._law_after(tree, node, row) for node, row in zip(tree.level, logits)}
        self._grow(tree, {node: q for node, q in laws.items() if q is not None})
        tree.depth += 1
        return bool(tree.level)

    def _law_after(self, tree: Growing, node: int, logits: Any) -> Any | None:
        """q after `node`; None after an end, and where there is none: its failure is not raised,
        for the target's own law decides what becomes of the request."""
        request, path = tree.request, tree.path(node)
        if path and (path[-1] in request.params.end_ids or path[-1] >= self._readable):
            return None
        try:
            history = History(request.ids, request.prompt_length, path)
            allowed = None if request.allowed is None else request.allowed(path)
            return self._law(logits, tree.params, history, allowed)
        except Exception:  # NaN, an empty support, or anything a user's processor may raise
            return None

    def _grow(self, tree: Growing, laws: Mapping[int, Any]) -> None:
        """Add children of the nodes in `laws`; `level` becomes those that want laws too."""
        raise NotImplementedError

    def _made(self, tree: Growing) -> Proposal:
        return Proposal(
            tree=TokenTree(tuple(tree.tokens), tuple(tree.parents)),
            q=tuple(tree.q),
            drawn=self.traits.drawn,
        )


class ShapedTreeDrafter(TreeDrafter):
    """Trees of a shape, with drawn tokens.

    shape   widths such as (3, 2, 1), or parents such as (−1, −1, 0), of which a tree is a part;
            None: the request's, or the best of so many nodes for `USUAL` chances by rank

    Where the shape is a chain its tokens are plainly sampled. OptionError for what is no shape.
    """

    drawn: Drawn

    def __init__(
        self,
        model: Model,
        *,
        shape: Sequence[int] | None = None,
        sampling: Mapping[str, Any] | None = None,
        prefix_memory: int = 0,
    ) -> None:
        super().__init__(model, sampling=sampling, prefix_memory=prefix_memory)
        self._shape = None if shape is None else checked_shape(shape)
        chain = self._shape == tuple(range(ROOT, len(self._shape) - 1)) if self._shape else False
        self.trees = None if chain else Trees(shape=self._shape)
        self.traits = DrafterTraits(
            drawn=Drawn.SAMPLED if chain else self.drawn, laws=True, chain=chain
        )

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        most = most if self._shape is None else min(most, len(self._shape))
        return super().outlook(slot, length, most)

    def _shape_of(self, tree: Growing) -> Shape:
        shape = tree.request.shape or self._shape
        return best(USUAL, tree.most) if shape is None else shape[: tree.most]

    def _grow(self, tree: Growing, laws: Mapping[int, Any]) -> None:
        shape = self._shape_of(tree)
        level: list[int] = []
        for node, q in laws.items():
            place = ROOT if node == ROOT else tree.places[node]
            places = [at for at, parent in enumerate(shape) if parent == place]
            if not places:
                continue
            path, first = tree.path(node), len(tree.tokens)
            found = self._children(q, len(places), partial(_draw, tree.request, first, path))
            for at, (token, source) in zip(places, found):
                level.append(len(tree.tokens))
                tree.add(node, token, source)
                tree.places.append(at)
        tree.level = level if any(tree.places[node] in shape for node in level) else []

    def _children(self, q: Any, count: int, draw: Draw) -> list[Child]:
        raise NotImplementedError


class SampledTreeDrafter(ShapedTreeDrafter):
    """Children drawn without replacement. With a sampler that races they are the first of the
    target's own race over q, and the tree is good under `coupled` as well."""

    name = "sampled-tree"
    drawn = Drawn.WITHOUT_REPLACEMENT

    def _children(self, q: Any, count: int, draw: Draw) -> list[Child]:
        return without_replacement(q, count, draw)


class GreedyPlusOneTreeDrafter(ShapedTreeDrafter):
    """The likeliest children, and one drawn from the rest."""

    name = "greedy-plus-one-tree"
    drawn = Drawn.GREEDY_PLUS_ONE

    def _children(self, q: Any, count: int, draw: Draw) -> list[Child]:
        return greedy_plus_one(q, count, draw)


class LikeliestTreeDrafter(TreeDrafter):
    """The `num_draft` nodes of the highest cumulative probability under the draft, of all trees as
    deep as `depth`: a function of the prefix.

    Nothing is drawn, so that q may be any law: where a request is greedy, that of temperature 1.
    """

    name = "tree"
    traits = DrafterTraits(drawn=Drawn.DETERMINISTIC, laws=False, chain=False)

    def __init__(
        self,
        model: Model,
        *,
        depth: int = 8,
        sampling: Mapping[str, Any] | None = None,
        prefix_memory: int = 0,
    ) -> None:
        super().__init__(model, sampling=sampling, prefix_memory=prefix_memory)
        self._depth = whole("depth", depth, 1)
        self.trees = Trees(depth=self._depth)

    def _growing(self, request: DraftRequest) -> Growing | None:
        tree = super()._growing(request)
        if tree is not None and tree.params.temperature == 0:
            tree.params = tree.params.replace(temperature=1.0)
        return tree

    def _grow(self, tree: Growing, laws: Mapping[int, Any]) -> None:
        old = len(tree.tokens)
        for node, q in laws.items():
            above = 1.0 if node == ROOT else tree.scores[node]
            for token, mass in head(q, tree.most):
                tree.add(node, token, None)
                tree.scores.append(above * mass)
        # a stable sort: no child stands before its parent, whose score is at least its own
        order = sorted(range(len(tree.tokens)), key=lambda node: -tree.scores[node])[: tree.most]
        order = sorted(i for i in order if i < old) + [i for i in order if i >= old]
        new = {ROOT: ROOT} | {node: i for i, node in enumerate(order)}
        tree.tokens = [tree.tokens[node] for node in order]
        tree.parents = [new[tree.parents[node]] for node in order]
        tree.scores = [tree.scores[node] for node in order]
        tree.q = [None] * len(order)
        first = sum(node < old for node in order)
        asked = tree.request.shape
        deepest = self._depth if asked is None else min(self._depth, max(depths_of(asked)))
        level = list(range(first, len(order))) if tree.depth + 1 < deepest else []
        full = len(order) == tree.most  # then a child has a place only above the least of them
        worth = not full or any(tree.scores[node] > min(tree.scores) for node in level)
        tree.level = level if worth else []


def _draw(request: DraftRequest, first: int, path: tuple[int, ...], q: Any, i: int) -> int:
    """Child i of the node that `path` leads to; its first child has the number `first`."""
    return int(request.sample(q, first + i, path))
