"""The exactly known model: its rows are the law's, and the contract notices faults."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest

from forerun.errors import CacheError, OptionError
from forerun.models.base import Step
from forerun.models.tabular import LayeredTabularModel, TabularModel

from .contract import CONTRACT, name


def law(prefix):
    """Depends on every token and its place; some probabilities are 0."""
    rng = np.random.default_rng(zlib.crc32(bytes(prefix)))
    p = rng.dirichlet(np.ones(5))
    p[rng.integers(5)] = 0
    return p / p.sum()


def make(context=None, max_memory=None):
    return TabularModel(law, 5, eos=4, context=context, max_memory=max_memory)


def layered(context=None, max_memory=None):
    return LayeredTabularModel(law, less, 3, 5, eos=4, context=context, max_memory=max_memory)


def less(prefix, skipped):
    """The law of the layers that are left."""
    return law((*prefix, *skipped)) if skipped else law(prefix)


@pytest.mark.parametrize("make", [make, layered])
@pytest.mark.parametrize("check", CONTRACT, ids=name)
def test_contract(check, make):
    check(make, 0.0)


def test_rows_are_the_laws_logarithms():
    model = make()
    slot = model.open()
    rows = model.extend([Step(slot=slot, tokens=(3, 1, 2), parents=(-1, 0, 0))])[0]
    assert rows.dtype == np.float64
    with np.errstate(divide="ignore"):
        expected = np.log([law((3,)), law((3, 1)), law((3, 2))])
    np.testing.assert_array_equal(rows, expected)


class KeepsOneTooMany(TabularModel):
    def keep(self, slot, length, path=None):
        if path is None:
            length = min(length + 1, self.length(slot))
        super().keep(slot, length, path)


class IgnoresParents(TabularModel):
    def _extend(self, step):
        rows = super()._extend(Step(slot=step.slot, tokens=step.tokens, rows=step.rows))
        self._last[step.slot] = (self._last[step.slot][0], step)
        return rows


class ForgetsToMoveThePath(TabularModel):
    def keep(self, slot, length, path=None):
        moved = self._cached[slot][:length]
        super().keep(slot, length, path)
        self._cached[slot] = moved


class RemembersClosedSlots(TabularModel):
    def close(self, slot):
        self.old = self._cached[slot]
        super().close(slot)

    def open(self):
        slot = super().open()
        self._cached[slot] = getattr(self, "old", ())
        return slot


class MixesUpTheBatch(TabularModel):
    def extend(self, steps):
        return super().extend(sorted(steps, key=lambda step: step.slot))


class ChangesBeforeItFails(TabularModel):
    def extend(self, steps):
        return [row for step in steps for row in super(ChangesBeforeItFails, self).extend([step])]


class CountsRowsFromTheFront(TabularModel):
    def _extend(self, step):
        every = Step(slot=step.slot, tokens=step.tokens, parents=step.parents)
        return super()._extend(every)[: step.wanted]


class RestoresAllThereIs(TabularModel):
    def restore(self, slot, pages, count):
        super().restore(slot, pages, len(pages))


class RestoresTheLast(TabularModel):
    def restore(self, slot, pages, count):
        last = pages.cells[len(pages) - count :]
        super().restore(slot, dataclasses.replace(pages, cells=last), count)


class RestoresAnywhere(TabularModel):
    def restore(self, slot, pages, count):
        super().restore(slot, dataclasses.replace(pages, start=self.length(slot)), count)


class RestoresIntoTheLastStep(TabularModel):
    def restore(self, slot, pages, count):
        last = self._last.get(slot)
        super().restore(slot, pages, count)
        self._last |= {} if last is None else {slot: last}


class Live:
    def __init__(self, model, slot, start):
        self.model, self.slot, self.start = model, slot, start

    def __getitem__(self, some):
        return self.model._cached[self.slot][self.start :][some]


class SavesWithoutACopy(TabularModel):
    def save(self, slot, start, stop):
        pages = super().save(slot, start, stop)
        return dataclasses.replace(pages, cells=Live(self, slot, start))


class SavesTrees(TabularModel):
    def save(self, slot, start, stop):
        last = self._last.pop(slot, None)
        try:
            return super().save(slot, start, stop)
        finally:
            self._last |= {} if last is None else {slot: last}


class PromisesTooMuch(TabularModel):
    def fits(self, lengths):
        return max(lengths, default=0) <= self.context


class PromisesTooLittle(TabularModel):
    def fits(self, lengths):
        return super().fits([length + 1 for length in lengths])


@pytest.mark.parametrize(
    "fault",
    [
        RestoresAllThereIs,
        RestoresTheLast,
        RestoresAnywhere,
        RestoresIntoTheLastStep,
        SavesWithoutACopy,
        SavesTrees,
        PromisesTooMuch,
        PromisesTooLittle,
        KeepsOneTooMany,
        IgnoresParents,
        ForgetsToMoveThePath,
        RemembersClosedSlots,
        MixesUpTheBatch,
        ChangesBeforeItFails,
        CountsRowsFromTheFront,
    ],
)
def test_the_contract_notices(fault):
    def faulty(context=None, max_memory=None):
        return fault(law, 5, eos=4, context=context, max_memory=max_memory)

    caught = []
    for check in CONTRACT:
        try:
            check(faulty, 0.0)
        except (AssertionError, LookupError, CacheError, pytest.fail.Exception):
            caught.append(check.__name__)
    assert caught


def test_numpys_whole_numbers_are_whole():
    model = TabularModel(law, np.int64(5), eos=np.int64(4), context=np.int32(8))
    assert (model.vocab_size, model.eos, model.context) == (5, {4}, 8)
    assert TabularModel(law, 5, eos=np.array([1, 2])).eos == {1, 2}


def test_what_it_refuses():
    with pytest.raises(OptionError, match="vocab_size must be at least 1, not 0"):
        TabularModel(law, 0)
    for wrong in ("3", True, 2.0, None):
        with pytest.raises(OptionError, match=f"vocab_size must be at least 1, not {wrong!r}"):
            TabularModel(law, wrong)
    for wrong in (True, 1.0, "1", [1, True]):
        with pytest.raises(OptionError, match=r"eos .* is not an id below vocab_size 5"):
            TabularModel(law, 5, eos=wrong)
    for wrong in (0, "8", True):
        with pytest.raises(OptionError, match=f"context must be at least 1, not {wrong!r}"):
            TabularModel(law, 5, context=wrong)
    with pytest.raises(OptionError, match="next_law is a function of a prefix, not 5"):
        TabularModel(5, 5)
    with pytest.raises(OptionError, match="eos 5 is not an id below vocab_size 5"):
        TabularModel(law, 5, eos=[4, 5])
    model = TabularModel(lambda prefix: [0.5, 0.5], 3)
    slot = model.open()
    with pytest.raises(OptionError, match=r"next_law\(\(1,\)\) must give 3 probabilities that"):
        model.extend([Step(slot=slot, tokens=(1,))])
