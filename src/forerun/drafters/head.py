"""A head on the target drafts, such as EAGLE-3's (Li et al. 2025, arXiv 2503.01840).

    text         t0    t1    t2    t3            the target has read all but t3
    features           f0    f1    f2            of what it read: hidden states of some layers
    pairs              t1 f0 t2 f1 t3 f2   ->    law q_0 -> x_0
                                   x_0 g_3 ->    law q_1 -> x_1     g_3: what came out of the head

The head reads each token beside the feature of the token before it. Of drafted tokens the target
has no features yet, so that the head's own output stands for them; when they were accepted, their
pairs are read again with the target's. All else is as with a draft model: laws from the request's
controls, coins from its sampler, one pass for all requests.

    head                       a chain, with the laws it was drawn from
    head-tree                  the likeliest nodes (EAGLE-2), nothing drawn
    head-joined-tree           those and a suffix tree's, the likeliest of both
    head-sampled-tree          children drawn without replacement, in a shape
    head-greedy-plus-one-tree  the likeliest and one drawn from the rest, in a shape

A head that drafts some of the target's ids only gives the others no mass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from forerun.drafters.base import DraftRequest, Outlook
from forerun.drafters.joined_tree import JoinedTreeDrafter
from forerun.drafters.model import Chain, DraftSlot, ModelDrafter
from forerun.drafters.tree import (
    GreedyPlusOneTreeDrafter,
    Growing,
    LikeliestTreeDrafter,
    SampledTreeDrafter,
    ShapedTreeDrafter,
    TreeDrafter,
)
from forerun.errors import OptionError
from forerun.models.base import Model, Step, Tapped
from forerun.models.heads.load import AnyHead
from forerun.numerics.choice import adjusts
from forerun.numerics.distribution import History, law
from forerun.numerics.sparse_law import SparseLaw
from forerun.sampling import SamplingParams

LEAST = 2.0**-12
"""Times the likeliest token's probability: what is less likely is not drafted. Of SmolLM2's head
some 800 tokens of 8,192 are left (median 300): nearly as many drafts are accepted (Σ min(p, q) .417
in place of .418), and to draw one takes a tenth of the time."""


class ReadsFeatures(ModelDrafter):
    """What drafters of heads share: pairs in place of tokens."""

    model: Any  # an `AnyHead`
    _target: Tapped

    def check(self, target: Model) -> None:
        """As `HeadModel`, and CapabilityError for another model than the head was loaded for, or
        where heads of other layers are to share it. The target is tapped from here on."""
        self._target = self.model.fit(target)
        self._target.tap(self.model.taps)
        self._vocab_size = target.vocab_size

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        """Nothing where the target's features are not known from the beginning on."""
        state = self._slots[slot]
        return super().outlook(slot, length, most if self._known(slot, state, length) else 0)

    def _known(self, slot: int, state: DraftSlot, length: int) -> bool:
        start = _first(state) - 1
        return length > 1 and len(self._target.features(slot, start)) == length - 1 - start

    def _chain(self, request: DraftRequest) -> Chain | None:
        state = self._slots[request.slot]
        if not self._known(request.slot, state, len(request.ids)):
            return None
        return super()._chain(request)

    @property
    def _readable(self) -> int:
        return int(self.model.readable)

    def _cut(self, state: DraftSlot) -> None:
        assert state.slot is not None
        self.model.keep(state.slot, _first(state) - 1)

    def _agree(self, state: DraftSlot, text: Sequence[int], most: int) -> None:
        """Pairs of drafted tokens are never the text's: those have the target's features."""
        super()._agree(state, (), min(state.cached, most))

    def _text(self, chain: Chain, count: int, rows: int) -> Step:
        start, end = _first(chain.state), chain.state.cached + count
        states = self._target.features(chain.request.slot, start - 1)
        tokens = tuple(chain.request.ids[start:end])
        feed = self.model.feature(states[: len(tokens)])
        return Step(slot=chain.slot, tokens=tokens, rows=rows, feed=feed)

    def _drafted(self, chain: Chain) -> Step:
        token = chain.tokens[-1]
        return Step(slot=chain.slot, tokens=(token,), rows=1, feed=self._last(chain))

    def _last(self, chain: Chain) -> Any:
        """[1, hidden]: what came out of the head at the slot's last pair."""
        return self.model.features(chain.slot, self.model.length(chain.slot) - 1)

    def _law(self, logits: Any, params: SamplingParams, history: History, allowed: Any) -> Any:
        ids, size = self.model.ids, self._vocab_size
        if allowed is None and not adjusts(params, history.output_length):
            return SparseLaw.among(law(logits, params, history), ids, size)
        found = np.full(size, -np.inf, dtype=logits.dtype)
        found[ids] = logits
        return law(found, params, history, allowed)


def _first(state: DraftSlot) -> int:
    """The first token whose pair the slot does not hold."""
    return max(state.cached, 1)


class HeadDrafter(ReadsFeatures):
    """See above.

        head = HeadModel(read_head("head"), target)
        engine = Engine(target, HeadDrafter(head))

    `sampling` as in `ModelDrafter`. OptionError for what is no `HeadModel`.
    """

    name = "head"

    def __init__(self, head: AnyHead, *, sampling: Mapping[str, Any] | None = None) -> None:
        super().__init__(checked_head(head), sampling=sampling)

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        return super().outlook(slot, length, min(most, self.model.depths))

    def _shaped(self, params: SamplingParams) -> SamplingParams:
        params = super()._shaped(params)
        return params.replace(min_p=max(params.min_p, LEAST))


@dataclass(eq=False)
class GrowingFromStates(Growing):
    """By its tokens from the root down, what came out of the head at each node that was read."""

    states: dict[tuple[int, ...], Any] = field(default_factory=dict)


class HeadTreeReader(ReadsFeatures, TreeDrafter):
    """What drafters of trees from heads share: each node is fed what came out at its parent."""

    def outlook(self, slot: int, length: int, most: int) -> Outlook:
        said = super().outlook(slot, length, most)
        if said.trees is None:
            return said
        depth = min(said.trees.depth, self.model.depths)
        return replace(said, trees=replace(said.trees, depth=depth))

    def _growing(self, request: DraftRequest) -> Growing | None:
        tree = super()._growing(request)
        if tree is None:
            return None
        return GrowingFromStates(
            request=tree.request, params=tree.params, state=tree.state, most=tree.most
        )

    def _grown(self, tree: Growing, logits: Any) -> bool:
        assert isinstance(tree, GrowingFromStates)
        if not tree.tokens:
            tree.states[()] = self._last(tree)[0].copy()
        else:
            pairs = self.model.length(tree.slot) - len(tree.tokens)
            for node, state in enumerate(self.model.features(tree.slot, pairs)):
                tree.states[tree.path(node)] = state.copy()
        return super()._grown(tree, logits)

    def _whole(self, tree: Growing) -> Step:
        assert isinstance(tree, GrowingFromStates)
        step = super()._whole(tree)
        feed = np.stack([tree.states[tree.path(node)[:-1]] for node in range(len(tree.tokens))])
        return Step(
            slot=step.slot, tokens=step.tokens, parents=step.parents, rows=step.rows, feed=feed
        )


class HeadTreeDrafter(HeadTreeReader, LikeliestTreeDrafter):
    """The likeliest nodes; `depth` and `sampling` as in `LikeliestTreeDrafter`."""

    name = "head-tree"

    def __init__(
        self, head: AnyHead, *, depth: int = 8, sampling: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(checked_head(head), depth=depth, sampling=sampling)


class HeadJoinedTreeDrafter(HeadTreeDrafter, JoinedTreeDrafter):
    """The likeliest nodes of the head's tree and of a suffix tree together."""

    name = "head-joined-tree"


class HeadShapedTreeReader(HeadTreeReader, ShapedTreeDrafter):
    """Of those whose tokens are drawn; `shape` and `sampling` as in `ShapedTreeDrafter`."""

    def __init__(
        self,
        head: AnyHead,
        *,
        shape: Sequence[int] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(checked_head(head), shape=shape, sampling=sampling)


class HeadSampledTreeDrafter(HeadShapedTreeReader, SampledTreeDrafter):
    """Drawn without replacement."""

    name = "head-sampled-tree"


class HeadGreedyPlusOneTreeDrafter(HeadShapedTreeReader, GreedyPlusOneTreeDrafter):
    """The likeliest and one more."""

    name = "head-greedy-plus-one-tree"


def checked_head(head: Any) -> AnyHead:
    if not isinstance(head, AnyHead):
        raise OptionError(f"a head is a HeadModel(read_head(folder), target), not {head!r}")
    return head
