"""Measured costs: by a clock that the tests turn, and what is kept of them on disk."""

from __future__ import annotations

import json
import math
import os

import pytest

from forerun.errors import CacheError
from forerun.models import cost
from forerun.models.cost import (
    MOST_REPEATS,
    REPEATS,
    ROWS,
    WIDEST,
    awakening,
    backend,
    identity,
    interpolated,
    measured,
    monotone,
    target_seconds,
)
from forerun.models.tabular import TabularModel

OWN = ROWS.index(WIDEST) + 1  # measured rows of one request


class Clocked(TabularModel):
    """Takes `takes(rows)` seconds a pass, by a clock of its own; keeps what it was asked."""

    pass_seconds = None
    cost_key = None

    def __init__(self, takes=lambda rows: 1 + rows / 10, **options):
        super().__init__(lambda prefix: (0.5, 0.5), 2, **options)
        self.takes, self.now, self.widths, self.behind = takes, 0.0, [], set()

    def clock(self):
        return self.now

    def extend(self, steps):
        (step,) = steps
        if step.wanted:
            self.widths.append(len(step.tokens))
            self.behind.add(self.length(step.slot))
            self.now += self.takes(len(step.tokens))
        return super().extend(steps)


def kept(model, folder, **options):
    return target_seconds(model, cache=folder, clock=model.clock, **options)


class Cached(Clocked):
    """Shares a processor's caches with others: behind a pass of another one it takes longer."""

    def __init__(self, caches, awakening, **options):
        super().__init__(lambda rows: 1.0, **options)
        self.caches, self.awakening = caches, awakening

    def extend(self, steps):
        if self.caches["holds"] is not self:
            self.caches["now"] += self.awakening
        self.caches |= {"holds": self, "now": self.caches["now"] + 1.0}
        return super().extend(steps)


class Full(Cached):
    def open(self):
        raise CacheError("no room for a slot")


def woken(draft, target, **options):
    return awakening(draft, target, clock=lambda: draft.caches["now"], **options)


@pytest.mark.parametrize(("first", "found"), [(0.5, 0.5), (0.0, 0.0), (-0.5, 0.0)])
def test_what_a_first_pass_takes_more(first, found):
    caches = {"holds": None, "now": 0.0}
    draft, target = Cached(caches, first), Cached(caches, 7.0)
    assert woken(draft, target) == found
    assert (draft.open(), target.open()) == (0, 0)  # slots were closed


def test_a_first_pass_is_measured_once(tmp_path):
    caches = {"holds": None, "now": 0.0}
    draft, target = Cached(caches, 0.5), Cached(caches, 7.0)
    draft.cost_key, target.cost_key = "a draft", "a target"
    assert woken(draft, target, cache=tmp_path) == 0.5
    draft.awakening = 0.7
    assert woken(draft, target, cache=tmp_path) == 0.5
    target.cost_key = "another"
    assert woken(draft, target, cache=tmp_path) == pytest.approx(0.7)
    draft.awakening, target.cost_key = 0.0, "a third"
    assert [woken(draft, target, cache=tmp_path) < 1e-6 for _ in range(2)] == [True, True]


def test_a_first_pass_that_cannot_be_measured_takes_no_more():
    caches = {"holds": None, "now": 0.0}
    target = Cached(caches, 0.0)
    assert woken(Full(caches, 0.5), target) == 0.0
    assert woken(Cached(caches, 0.5, context=1), target) == 0.0
    stated = TabularModel(lambda prefix: (0.5, 0.5), 2)
    assert awakening(stated, target) == 0.0
    assert awakening(Cached(caches, 0.5), stated) == 0.0
    own = Cached(caches, 0.5)
    own.model = target  # the target without some of its layers
    assert woken(own, target) == 0.0


def test_seconds_by_width():
    model = Clocked()
    found = measured(model, model.clock)
    assert found == pytest.approx([1 + n / 10 for n in range(1, 17)])
    assert model.behind == {128}
    assert not model._cached, "its slot is closed"
    assert set(model.widths) == {n for n in ROWS if n <= WIDEST}, "those between are interpolated"


def test_rows_of_a_full_batch_are_measured_where_they_take_little():
    quick = Clocked(lambda rows: (1 + rows / 10) / 1e3)
    found = measured(quick, quick.clock)
    assert found == pytest.approx([(1 + n / 10) / 1e3 for n in range(1, 65)])
    assert {n: quick.widths.count(n) for n in ROWS if n > WIDEST} == dict.fromkeys(
        (24, 32, 48, 64), REPEATS
    )
    slow = Clocked(lambda rows: rows / 150)
    assert len(measured(slow, slow.clock)) == 32, "48 rows take .32 s"
    assert [slow.widths.count(n) for n in (24, 32)] == [2, 2]


@pytest.mark.parametrize(("context", "widths"), [(128 + 16, 16), (128 + 40, 32), (1000, 64)])
def test_rows_of_a_full_batch_need_room_in_one_slot(context, widths):
    model = Clocked(lambda rows: 1e-3, context=context)
    assert len(measured(model, model.clock)) == widths
    assert model.behind == {128}


def test_between_measured_rows():
    assert interpolated([1, 2, 4], [1, 2, 5]) == (1, 2, 3.5, 5)
    assert interpolated([1], [3.0]) == (3.0,)
    assert interpolated([], []) == ()


def test_widths_are_interleaved_and_the_median_is_taken():
    spike = iter([1000.0])

    def takes(rows):
        return next(spike, 1.0) if rows == 3 else 1.0

    model = Clocked(takes)
    assert measured(model, model.clock) == (1.0,) * 16
    first = model.widths[1 : 1 + OWN]  # after the warm-up
    second = model.widths[1 + OWN : 1 + 2 * OWN]
    assert sorted(first) == sorted(second) == list(ROWS[:OWN])
    assert first != second


@pytest.mark.parametrize(("seconds", "turns"), [(1.0, REPEATS), (1e-6, MOST_REPEATS)])
def test_a_second_or_two_in_all(seconds, turns):
    model = Clocked(lambda rows: seconds)
    measured(model, model.clock)
    assert len([n for n in model.widths if n <= WIDEST]) == 1 + turns * OWN


@pytest.mark.parametrize(("context", "behind", "widths"), [(100, 84, 16), (16, 0, 16), (5, 0, 5)])
def test_in_a_small_context(context, behind, widths):
    model = Clocked(context=context)
    assert len(measured(model, model.clock)) == widths
    assert model.behind == {behind}


@pytest.mark.parametrize(("room", "widths"), [(60, 16), (9, 8), (3, 2), (0, 0)])
def test_where_memory_is_short(room, widths):
    class Cramped(Clocked):
        def extend(self, steps):
            if sum(len(step.tokens) + self.length(step.slot) for step in steps) > room:
                raise CacheError("no memory")
            return super().extend(steps)

    model = Cramped()
    assert len(measured(model, model.clock)) == widths
    assert not model._cached


def test_no_slot_at_all():
    class Full(Clocked):
        def open(self):
            raise CacheError("no slot")

    assert measured(Full()) == ()


def test_falling_medians_are_averaged():
    assert monotone([1, 3, 2, 5]) == (1, 2.5, 2.5, 5)
    assert monotone([3, 2, 1]) == (2, 2, 2)
    assert monotone([1, 2, 2, 3]) == (1, 2, 2, 3)
    assert monotone([]) == ()


def test_stated_costs_are_believed(tmp_path):
    model = Clocked()
    model.pass_seconds, model.cost_key = (1, 2), "me"
    assert kept(model, tmp_path) == (1.0, 2.0)
    assert model.widths == []
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------ on disk


def test_kept_for_what_it_says_it_is(tmp_path):
    first = Clocked(lambda rows: 1.0)
    first.cost_key = "model a, 2 threads"
    assert kept(first, tmp_path) == (1.0,) * 16
    again = Clocked(lambda rows: 5.0)
    again.cost_key = "model a, 2 threads"
    assert kept(again, tmp_path) == (1.0,) * 16
    assert again.widths == []
    assert kept(again, tmp_path, refresh=True) == (5.0,) * 16
    assert kept(first, tmp_path) == (5.0,) * 16
    other = Clocked(lambda rows: 7.0)
    other.cost_key = "model a, 4 threads"
    assert kept(other, tmp_path) == (7.0,) * 16


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("processor", lambda: "another"),
        ("backend", lambda model: "x"),
        ("CACHED", 64),
        ("ROWS", (*ROWS, 96)),
    ],
)
def test_measured_again_for_another_machine_or_way(name, value, tmp_path, monkeypatch):
    model = Clocked()
    model.cost_key = "a"
    kept(model, tmp_path)
    monkeypatch.setattr(cost, name, value)
    model.widths.clear()
    kept(model, tmp_path)
    assert model.widths


def test_measured_again_for_another_version(tmp_path, monkeypatch):
    model = Clocked()
    model.cost_key = "a"
    kept(model, tmp_path)
    monkeypatch.setattr(cost, "version", lambda name: "99")
    model.widths.clear()
    kept(model, tmp_path)
    assert model.widths


def test_without_a_name_nothing_is_kept(tmp_path):
    kept(Clocked(), tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: "[1, 2]",
        lambda text: json.dumps(json.loads(text) | {"key": "another"}),
        lambda text: json.dumps(json.loads(text) | {"seconds": [1.0] * 15}),
        lambda text: json.dumps(json.loads(text) | {"seconds": [1.0] * 65}),
        lambda text: json.dumps(json.loads(text) | {"seconds": ["fast"] * 16}),
        lambda text: json.dumps(json.loads(text) | {"seconds": [math.nan] * 16}),
        lambda text: json.dumps(json.loads(text) | {"seconds": [-1.0] * 16}),
        lambda text: json.dumps(json.loads(text) | {"seconds": [9.0, *[1.0] * 15]}),
    ],
)
def test_a_broken_file_is_measured_again(damage, tmp_path):
    model = Clocked(lambda rows: 2.0)
    model.cost_key = "a"
    kept(model, tmp_path)
    (file,) = (tmp_path / "costs").iterdir()
    file.write_text(damage(file.read_text()))
    model.widths.clear()
    assert kept(model, tmp_path) == (2.0,) * 16
    assert model.widths
    model.widths.clear()
    kept(model, tmp_path)
    assert not model.widths, "and repaired"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "costs").write_text("a file where the folder should be")
    model = Clocked(lambda rows: 2.0)
    model.cost_key = "a"
    assert kept(model, tmp_path) == (2.0,) * 16


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(cost.os, "replace", full)
    model = Clocked(lambda rows: 2.0)
    model.cost_key = "a"
    assert kept(model, tmp_path) == (2.0,) * 16
    assert os.listdir(tmp_path / "costs") == []


# ------------------------------------------------------------------ names


def test_a_files_identity(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"abc")
    before = identity(file)
    assert str(file) in before
    assert identity(file) == before
    os.utime(file, ns=(1, 1))
    assert identity(file) != before
    assert identity(tmp_path) != identity(file)
    assert identity("org/name") == "org/name"


def test_backends_by_name():
    assert backend(TabularModel(lambda prefix: (1.0,), 1)) == "tabular"
    assert backend(Clocked()) == "models"
