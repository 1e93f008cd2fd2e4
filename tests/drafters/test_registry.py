"""Drafters by name."""

from __future__ import annotations

import pytest

from forerun.drafters import (
    DRAFTERS,
    ModelDrafter,
    NgramDrafter,
    PredictionDrafter,
    SuffixDrafter,
    drafter,
)
from forerun.errors import OptionError, UnknownNameError

from .contract import tabular


def test_names() -> None:
    assert list(DRAFTERS) == ["none", "model", "ngram", "suffix", "prediction"]
    assert isinstance(drafter("ngram"), NgramDrafter)
    assert isinstance(drafter("suffix", memory_bytes=1000), SuffixDrafter)
    assert isinstance(drafter("model", model=tabular()), ModelDrafter)
    assert isinstance(drafter("prediction", tokens=[1, 2]), PredictionDrafter)


def test_every_drafter_carries_its_name() -> None:
    made = [NgramDrafter(), SuffixDrafter(), PredictionDrafter([]), ModelDrafter(tabular())]
    assert all(DRAFTERS[one.name] is type(one) for one in made)


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
