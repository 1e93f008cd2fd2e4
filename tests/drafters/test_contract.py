"""The contract, once for each drafter."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from forerun.certify.vocabularies import of_pieces, pieces
from forerun.drafters import (
    Drafter,
    DraftRequest,
    GreedyPlusOneTreeDrafter,
    HybridDrafter,
    IntersectionDrafter,
    JoinedTreeDrafter,
    LayerSkipDrafter,
    LikeliestTreeDrafter,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SampledTreeDrafter,
    StringMatchDrafter,
    SuffixDrafter,
    SuffixTreeDrafter,
)
from forerun.models.base import Model
from forerun.models.tabular import LayeredTabularModel
from forerun.numerics.token_tree import Proposal

from .contract import END, DrafterContract, V, peaked, shallow, spoken, tabular


def foreign(kind: type[ModelDrafter], **options: Any) -> Drafter:
    """A drafter whose draft model has the target's tokens in another order."""
    made = kind(tabular(2, tokenizer=of_pieces(pieces(V)[::-1]), **options))
    made.check(spoken())
    return made


class Seated(LayerSkipDrafter):
    """On a target that has read what the round would have made it read."""

    def __init__(self, *skip: int, **options: Any) -> None:
        super().__init__(skip or None)
        self.target = LayeredTabularModel(partial(peaked, 1), shallow, 4, V, END, **options)
        super().check(self.target)

    def check(self, target: Model) -> None:
        """The one it has."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        for request in requests:
            self.target._cached[request.slot] = tuple(request.ids[:-1])
        found = super().propose(requests)
        assert all(self.target._cached.pop(r.slot) == tuple(r.ids[:-1]) for r in requests)
        return found


class TestLayerSkip(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return Seated()


class TestLayerSkipOfShortContext(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return Seated(1, context=16)


class TestIntersection(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return foreign(IntersectionDrafter)


class TestIntersectionOfShortContext(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return foreign(IntersectionDrafter, context=16)


class TestStringMatch(DrafterContract):
    cached = True

    def make(self) -> Drafter:
        return foreign(StringMatchDrafter)


class TestModel(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return ModelDrafter(tabular(2))


class TestGreedyModel(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return ModelDrafter(tabular(2), sampling={"temperature": 0})


class TestModelOfShortContext(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return ModelDrafter(tabular(2, context=16))


class TestModelWithPrefixes(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return ModelDrafter(tabular(2), prefix_memory=1 << 16)

    test_end_leaves_nothing_behind = None  # it leaves pages


class TestNgram(DrafterContract):
    def make(self) -> Drafter:
        return NgramDrafter()


class TestLongNgram(DrafterContract):
    def make(self) -> Drafter:
        return NgramDrafter(longest=6, shortest=2)


class TestSuffix(DrafterContract):
    def make(self) -> Drafter:
        return SuffixDrafter()


class TestShallowSuffix(DrafterContract):
    def make(self) -> Drafter:
        return SuffixDrafter(max_match=2, draft_factor=4, min_probability=0)


class TestPrediction(DrafterContract):
    def make(self) -> Drafter:
        return PredictionDrafter([0, 1, 0, 1, 2, 2, 1, 0, 0, 2, 3])


class TestShortSightedPrediction(DrafterContract):
    def make(self) -> Drafter:
        return PredictionDrafter([1, 1, 1, 1, 0, 1, 2], longest=1)


class TestTwoLookups(DrafterContract):
    def make(self) -> Drafter:
        return HybridDrafter([SuffixDrafter(max_match=8), NgramDrafter()])


class TestLookupAndModel(DrafterContract):
    """Lookups where there is a match, else the model: laws in some proposals, none in others."""

    deterministic = None

    def make(self) -> Drafter:
        return HybridDrafter([NgramDrafter(shortest=2), ModelDrafter(tabular(2))])


class TestSuffixTree(DrafterContract):
    chain = False

    def make(self) -> Drafter:
        return SuffixTreeDrafter()


class TestShallowSuffixTree(DrafterContract):
    chain = False

    def make(self) -> Drafter:
        return SuffixTreeDrafter(max_match=2, min_probability=0)


class TestSuffixTreeOrModel(DrafterContract):
    """Trees where there is a match, else sampled chains."""

    deterministic, chain = None, False

    def make(self) -> Drafter:
        return HybridDrafter([SuffixTreeDrafter(min_probability=0.2), ModelDrafter(tabular(2))])


class TestTree(DrafterContract):
    chain = False

    def make(self) -> Drafter:
        return LikeliestTreeDrafter(tabular(2), depth=3)


class TestJoinedTree(DrafterContract):
    chain = False

    def make(self) -> Drafter:
        return JoinedTreeDrafter(tabular(2), depth=3)


class TestSampledTree(DrafterContract):
    deterministic, chain = False, False

    def make(self) -> Drafter:
        return SampledTreeDrafter(tabular(2))


class TestWideSampledTree(DrafterContract):
    deterministic, chain = False, False

    def make(self) -> Drafter:
        return SampledTreeDrafter(tabular(2, context=16), shape=(3, 2))


class TestGreedyPlusOneTree(DrafterContract):
    deterministic, chain = False, False

    def make(self) -> Drafter:
        return GreedyPlusOneTreeDrafter(tabular(2), shape=(2, 2))


class TestTreeThatIsAChain(DrafterContract):
    deterministic = False

    def make(self) -> Drafter:
        return SampledTreeDrafter(tabular(2), shape=(1, 1, 1, 1, 1))
