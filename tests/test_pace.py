"""Costs of a round, corrected by times; no clock: the times are given."""

from __future__ import annotations

import pytest

from forerun.drafters import HybridDrafter, ModelDrafter, SuffixDrafter
from forerun.errors import OptionError
from forerun.models.tabular import TabularModel
from forerun.pace import FORGET, Costs, Pace, checked_costs, table
from forerun.trace import Times

TARGET = (1.0, 1.2, 1.4, 1.6)


def pace(fixed=False, **draft):
    return Pace(Costs(target=TARGET, draft=draft, fixed=fixed))


def took(target, *, draft=0.0, verify=0.0):
    return Times(draft=draft, target=target, verify=verify)


def test_to_begin_with_the_table_is_believed():
    assert list(pace().rows()) == list(TARGET)
    assert pace().seconds(None, 0, 0) == 1.0
    assert pace().seconds("suffix", 2, 0) == 1.4, "a lookup is free until it was seen"
    assert pace(model=(0.1,)).seconds("model", 2, 1) == pytest.approx(1.6)


def test_times_of_a_width_correct_it_and_its_neighbours():
    found = pace()
    found.learn(None, 0, 0, took(2.0))
    assert list(found.rows()) == [2 * s for s in TARGET], "a slower machine"
    found.learn("suffix", 2, 0, took(1.4))
    assert found.rows() == pytest.approx([2.0, 1.5 * 1.2, 1.4, 1.6]), "interpolated, then constant"


def test_one_slow_pass_changes_nothing():
    found = pace()
    for seconds in (1.0, 1.0, 50.0):
        found.learn(None, 0, 0, took(seconds))
    assert found.rows()[0] == 1.0


def test_what_was_seen_long_ago_is_forgotten():
    found = pace()
    found.learn(None, 0, 0, took(5.0))
    for _ in range(FORGET - 1):
        found.learn("suffix", 1, 0, took(1.2))
    assert found.rows()[0] == 5.0
    assert not found.unsure(10)
    found.learn("suffix", 1, 0, took(1.2))
    assert found.rows()[0] == 1.0
    assert found.unsure(10), "a plain pass is due"


def test_behind_a_long_text_a_plain_pass_comes_first():
    found = pace()
    assert not found.unsure(256)
    assert found.unsure(257)
    found.learn(None, 0, 0, took(3.0))
    assert not found.unsure(257)
    assert not pace(fixed=True).unsure(10**6)


def test_judging_and_lookups_cost_what_they_took():
    found = pace()
    found.learn("suffix", 3, 0, took(1.6, draft=0.3, verify=0.4))
    assert found.rows() == pytest.approx([1.1, 1.4, 1.7, 2.0])
    assert found.drafting("suffix", 0) == pytest.approx((0.1, 0.1))
    assert found.seconds("suffix", 2, 0) == pytest.approx(1.7 + 0.2)


def test_a_draft_models_times_correct_its_table():
    found = pace(model=(0.1, 0.2))
    assert found.drafting("model", 2) == pytest.approx((0.2, 0.1))
    found.learn("model", 2, 2, took(1.4, draft=0.6))
    assert found.drafting("model", 2) == pytest.approx((0.4, 0.2))


def test_reading_a_prompt_is_spread_and_teaches_nothing():
    found = pace(model=(0.1, 0.2))
    first, later = found.drafting("model", 101)
    assert first == pytest.approx(0.1 + (0.2 + 99 * 0.1 - 0.1) / FORGET)
    assert later == 0.1
    found.learn("model", 2, 101, took(1.4, draft=9.0))
    assert found.drafting("model", 101) == (first, later)


def test_fixed_costs_stay():
    found = pace(fixed=True, model=(0.1,))
    found.learn("model", 2, 1, took(9.0, draft=9.0, verify=9.0))
    assert list(found.rows()) == list(TARGET)
    assert found.drafting("model", 1) == (0.1, 0.1)


def test_beyond_the_table_its_last_step_goes_on():
    assert [table(TARGET, n) for n in (1, 4, 6)] == pytest.approx([1.0, 1.6, 2.0])
    assert table((0.5,), 9) == 0.5


def test_costs_of_models():
    def model(**options):
        return TabularModel(lambda prefix: (0.5, 0.5), 2, **options)

    small = model()
    small.pass_seconds = (1e-4,)
    both = HybridDrafter([SuffixDrafter(), ModelDrafter(small)])
    found = Costs.measured(model(), both)
    assert found.fixed
    assert found.draft == {"model": (1e-4,)}
    assert found.target[:2] == pytest.approx((1e-3, 1.02e-3))
    assert found.widest == 16
    assert Costs.measured(model(), None).draft == {}


def test_costs_as_they_are_given():
    assert checked_costs([1, 2.5]) == Costs(target=(1, 2.5), fixed=True)
    own = Costs(target=(1.0,), draft={"model": (0.1,)})
    assert checked_costs(own) is own
    for wrong, said in (
        ("fast", "costs are seconds of a pass over 1, 2, … rows, not 'fast'"),
        (3, "not 3"),
        ([], "at least"),
        ([1, 0], "costs are seconds above 0, not 0"),
        ([True], "not True"),
        ([float("nan")], "not nan"),
        (["1"], "not '1'"),
        (Costs(target=(1.0,), draft={"model": (-1.0,)}), "not -1.0"),
    ):
        with pytest.raises(OptionError, match=said):
            checked_costs(wrong)
