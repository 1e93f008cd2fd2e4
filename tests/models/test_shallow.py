"""`Shallow`: the model's slots, some of its layers."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.errors import CapabilityError, OptionError
from forerun.models.base import Model, Step
from forerun.models.cost import target_seconds
from forerun.models.shallow import Shallow
from forerun.models.tabular import LayeredTabularModel, TabularModel

from .contract import CONTRACT, name


def law(prefix):
    dice = np.random.default_rng([*prefix])
    return dice.dirichlet(np.ones(5))


def less(prefix, skipped):
    return law((*prefix, *sorted(skipped)))


def model(context=None, max_memory=None):
    return LayeredTabularModel(law, less, 4, 5, eos=4, context=context, max_memory=max_memory)


class Roomy(Shallow):
    """With the count of bytes that the contract asks for."""

    @property
    def cache_bytes(self):
        return self.model.cache_bytes


PAGES = (
    "restored_cells_equal_read_ones", "saved_copies_stand_alone", "a_restored_slot_is_like_any",
    "impossible_saves_and_restores_change_nothing", "copies_take_what_they_hold",
    "restoring_is_bounded_like_reading",
)  # fmt: skip


@pytest.mark.parametrize("check", CONTRACT, ids=name)
def test_contract(check):
    """It is a model like any other, but for pages."""

    def make(context=None, max_memory=None):
        return Roomy(model(context, max_memory), (1, 2))

    if name(check) in PAGES:
        with pytest.raises(CapabilityError, match="pages are the whole model's"):
            check(make, 0.0)
    else:
        check(make, 0.0)


def test_it_reads_what_the_whole_model_cached_and_leaves_the_slot_as_it_was():
    whole = model()
    part = Shallow(whole, (2, 1))
    assert isinstance(part, Model)
    assert part.layers == (1, 2)
    assert part.depth == 4
    assert part.name == "tabular without layers 1, 2"
    slot = whole.open()
    whole.extend([Step(slot=slot, tokens=(3, 1), rows=0)])
    (row,) = part.extend([Step(slot=slot, tokens=(0,))])
    np.testing.assert_allclose(np.exp(row[0]), less((3, 1, 0), {1, 2}))
    part.keep(slot, 2)
    (row,) = whole.extend([Step(slot=slot, tokens=(0,))])
    np.testing.assert_allclose(np.exp(row[0]), law((3, 1, 0)))


def test_what_its_passes_cost():
    whole = model()
    half = target_seconds(Shallow(whole, (1, 2)))
    np.testing.assert_allclose(half, np.array(whole.pass_seconds) / 2)
    assert Shallow(whole, (1,)).cost_key is None
    whole.cost_key = "a file, 2 threads"
    assert Shallow(whole, (1, 2)).cost_key == "a file, 2 threads, without 2 layers"


def test_models_that_cannot_leave_layers_out():
    with pytest.raises(CapabilityError, match="small cannot leave layers out: the native backend"):
        Shallow(TabularModel(law, 5, name="small"), (1,))


@pytest.mark.parametrize("bad", [4, -1, 0.5, "1"])
def test_layers_that_there_are_not(bad):
    with pytest.raises(OptionError, match=f"layers are numbered 0 to 3, and {bad!r} is none"):
        Shallow(model(), [bad])
