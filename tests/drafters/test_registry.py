"""Drafters by name."""

from __future__ import annotations

import pytest

from forerun.certify.vocabularies import of_pieces, pieces
from forerun.drafters import (
    DRAFTERS,
    TRANSLATING,
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
    drafter,
    fitting,
    names,
)
from forerun.errors import OptionError, UnknownNameError

from .contract import V, tabular

FOREIGN = (IntersectionDrafter, StringMatchDrafter)
TREES = (LikeliestTreeDrafter, JoinedTreeDrafter, SampledTreeDrafter, GreedyPlusOneTreeDrafter)


def test_names() -> None:
    assert list(DRAFTERS) == [
        "none", "model", "layer-skip", "intersection", "string-match", "ngram", "suffix",
        "prediction", "suffix-tree", "tree", "joined-tree", "sampled-tree",
        "greedy-plus-one-tree",
        "head", "head-tree", "head-joined-tree", "head-sampled-tree", "head-greedy-plus-one-tree",
    ]  # fmt: skip
    assert isinstance(drafter("ngram"), NgramDrafter)
    assert isinstance(drafter("suffix", memory_bytes=1000), SuffixDrafter)
    assert isinstance(drafter("suffix-tree", memory_bytes=1000), SuffixTreeDrafter)
    assert isinstance(drafter("model", model=tabular()), ModelDrafter)
    assert isinstance(drafter("prediction", tokens=[1, 2]), PredictionDrafter)


def test_every_drafter_carries_its_name() -> None:
    made = [NgramDrafter(), SuffixDrafter(), PredictionDrafter([]), ModelDrafter(tabular())]
    made += [SuffixTreeDrafter(), LayerSkipDrafter()]
    made += [kind(tabular()) for kind in (*TREES, *FOREIGN)]
    assert all(DRAFTERS[one.name] is type(one) for one in made)


def test_those_that_translate() -> None:
    assert {kind.name for kind in FOREIGN} == TRANSLATING
    assert all(isinstance(DRAFTERS[kind.name](model=tabular()), kind) for kind in FOREIGN)


def test_the_drafter_that_fits_a_draft_model() -> None:
    ours, reversed_, longer = pieces(V), pieces(V)[::-1], [*pieces(V), b"c"]
    target = tabular(tokenizer=of_pieces(ours))
    assert fitting(target, tabular(tokenizer=of_pieces(ours))) == "model"
    assert fitting(target, tabular(tokenizer=of_pieces(longer))) == "model"
    assert fitting(target, tabular(tokenizer=of_pieces(reversed_))) == "intersection"
    assert fitting(target, tabular()) == "model", "without a tokenizer sizes are compared"


def test_none_and_objects() -> None:
    mine = NgramDrafter()
    assert drafter(mine) is mine
    assert drafter(None) is drafter("none") is None


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="unknown drafter 'ngrm'; did you mean 'ngram'"):
        drafter("ngrm")


def test_what_a_name_alone_cannot_make() -> None:
    with pytest.raises(OptionError, match="drafter 'model' needs a draft model"):
        drafter("model")
    with pytest.raises(OptionError, match="drafter 'prediction' needs the predicted text"):
        drafter("prediction")


def test_what_is_no_drafter() -> None:
    with pytest.raises(OptionError, match="a model needs ModelDrafter"):
        drafter(tabular())  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="options longest go with a drafter's name"):
        drafter(NgramDrafter(), longest=3)
    with pytest.raises(TypeError, match="lengest"):
        drafter("ngram", lengest=3)


def test_several_by_names_joined() -> None:
    found = drafter("suffix+model", model=tabular(), memory_bytes=1000)
    assert isinstance(found, HybridDrafter)
    assert found.name == "suffix+model"
    suffix, model = found.parts.values()
    assert isinstance(suffix, SuffixDrafter)
    assert suffix.memory.limit == 1000
    assert isinstance(model, ModelDrafter)


def test_several_that_make_no_sense() -> None:
    with pytest.raises(UnknownNameError, match="unknown drafter 'modle'; did you mean 'model'"):
        drafter("suffix+modle")
    with pytest.raises(OptionError, match=r"different ones, such as suffix\+model, not 'ngram\+"):
        drafter("ngram+ngram")
    with pytest.raises(OptionError, match="different ones"):
        drafter("none+ngram")
    with pytest.raises(UnknownNameError, match="unknown drafter ''"):
        drafter("suffix+")
    with pytest.raises(OptionError, match="drafter 'model' needs a draft model"):
        drafter("suffix+model")
    with pytest.raises(TypeError, match="none of suffix, ngram takes an option 'model'"):
        drafter("suffix+ngram", model=tabular())


def test_names_in_order() -> None:
    assert names("suffix") == ["suffix"]
    assert names("none") == ["none"]
    assert names("ngram+model+suffix") == ["ngram", "model", "suffix"]
