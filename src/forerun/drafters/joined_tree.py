"""One tree with branches from both: what the text itself suggests, and what a draft model does.

    suffix-tree     root ── sat ── on        .8  .7        both      root ── sat ── on        .8  .7
    tree            root ── sat ── down      .5  .3                       │      └── down         .3
                         └─ ran              .2                           └─ ran              .2

Both estimate for each of their nodes the chance that the text runs through it. Where both have a
node the larger one counts. Of all nodes the `num_draft` with the largest chances are the tree: a
match that is sure takes most of the room, and where nothing matches the tree is the model's. But a
third of the nodes is each one's own, its likeliest: neither is believed blindly.

Nothing is drawn: the nodes are functions of the prefix, point masses, and whatever judges such
trees judges this one; by `auto` that is `coupled`. (Branches that were drawn stand in no tree with
others: each would have to be drawn with regard to those beside it.)

What this module does not know: how either of them finds its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from forerun.drafters.suffix_tree import Node, SuffixTreeDrafter
from forerun.drafters.tree import Growing, LikeliestTreeDrafter
from forerun.models.base import Model
from forerun.numerics.token_tree import ROOT, Proposal, TokenTree

EACH = 3  # one in so many nodes is each one's own


class JoinedTreeDrafter(LikeliestTreeDrafter):
    """The likeliest nodes of a draft model's tree and of a suffix tree together.

    Keywords as in `LikeliestTreeDrafter`; `depth` is that of the model's branches.
    """

    name = "joined-tree"

    def __init__(
        self,
        model: Model,
        *,
        depth: int = 8,
        sampling: Mapping[str, Any] | None = None,
        prefix_memory: int = 0,
    ) -> None:
        super().__init__(model, depth=depth, sampling=sampling, prefix_memory=prefix_memory)
        self._lookup = SuffixTreeDrafter()

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        super().begin(slot, prompt, recall=recall, tenant=tenant)
        self._lookup.begin(slot, prompt, recall=recall, tenant=tenant)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        super().observe(slot, committed)
        self._lookup.observe(slot, committed)

    def end(self, slot: int) -> None:
        super().end(slot)
        self._lookup.end(slot)

    def _made(self, tree: Growing) -> Proposal:
        request = tree.request
        own = zip(tree.tokens, tree.parents, tree.scores)
        found = self._lookup.nodes(request.slot, tree.most)
        both = joined(found, own, tree.most, request.params.end_ids)
        return Proposal(tree=both, q=(None,) * len(both))


def joined(
    first: Iterable[Node], second: Iterable[Node], most: int, ends: Collection[int]
) -> TokenTree:
    """`most` nodes of two trees, parents first; none below an end of the text."""
    tokens, parents, chances = list[int](), list[int](), list[float]()
    known = dict[tuple[int, int], int]()  # parent and token -> node
    sure = set[int]()
    for nodes in (first, second):
        places: dict[int, int | None] = {ROOT: ROOT}
        own: dict[int, float] = {}
        for i, (token, parent, chance) in enumerate(nodes):
            at = places[parent]
            if at is None or (at != ROOT and tokens[at] in ends):
                places[i] = None
                continue
            node = places[i] = known.setdefault((at, token), len(tokens))
            if node == len(tokens):
                tokens.append(token)
                parents.append(at)
                chances.append(chance)
            own[node] = chance
            chances[node] = max(chances[node], chance)
        sure |= set(_likeliest(own, own, most // EACH))
    # no node comes before its parent, whose chance is at least its own
    others = [node for node in _likeliest(range(len(tokens)), chances) if node not in sure]
    order = sorted([*sure, *others][:most])
    new = {ROOT: ROOT} | {node: i for i, node in enumerate(order)}
    return TokenTree(
        tuple(tokens[node] for node in order), tuple(new[parents[node]] for node in order)
    )


def _likeliest(nodes: Iterable[int], chances: Any, most: int | None = None) -> list[int]:
    """The first come first where chances are the same."""
    return sorted(nodes, key=lambda node: -chances[node])[:most]
