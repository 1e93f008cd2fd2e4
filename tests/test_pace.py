"""Costs of a round, corrected by times; no clock: the times are given."""

from __future__ import annotations

import pytest

import forerun.pace
from forerun.drafters import HybridDrafter, ModelDrafter, SuffixDrafter
from forerun.errors import OptionError
from forerun.models.tabular import TabularModel
from forerun.pace import FORGET, Bill, Costs, Pace, checked_costs, reads, situation, table
from forerun.trace import Times

TARGET = (1.0, 1.2, 1.4, 1.6)
ALONE = situation([100])


def pace(fixed=False, **draft):
    return Pace(Costs(target=TARGET, draft=draft, fixed=fixed))


def rows(pace, at=ALONE, most=4):
    return list(pace.rows(at, most))


def bill(pace, drafter, *drafts, unread=1):
    """For requests with drafts of so many tokens."""
    found = Bill(pace)
    for count in drafts:
        found.add_all(drafter, reads(None, count), unread)
    return found


def learn(pace, target, *, count=1, verify=0.0, at=ALONE, drafter=None, draft=0.0, unread=1):
    """A round of `count` rows; all but the first were drafted by `drafter`, if any."""
    drafting = bill(pace, drafter, count - 1, unread=unread) if drafter else Bill(pace)
    times = Times(draft=draft, target=target, verify=verify)
    pace.learn(at, count, times, drafting, {drafter: draft} if drafter else {})


def test_to_begin_with_the_table_is_believed():
    assert rows(pace()) == list(TARGET)
    assert rows(pace(), most=6) == pytest.approx([*TARGET, 1.8, 2.0])
    assert bill(pace(), "suffix", 2).seconds == 0, "a lookup is free until it was seen"
    assert bill(pace(model=(0.1,)), "model", 2).seconds == pytest.approx(0.2)


def test_times_of_a_width_correct_it_and_its_neighbours():
    found = pace()
    learn(found, 2.0)
    assert rows(found) == [2 * s for s in TARGET], "a slower machine"
    learn(found, 1.4, count=3)
    assert rows(found) == pytest.approx([2.0, 1.5 * 1.2, 1.4, 1.6]), "interpolated, then constant"


def test_one_slow_pass_changes_nothing():
    found = pace()
    for seconds in (1.0, 1.0, 50.0):
        learn(found, seconds)
    assert rows(found)[0] == 1.0


def test_what_was_seen_long_ago_is_forgotten():
    found = pace()
    learn(found, 5.0)
    for _ in range(FORGET - 1):
        learn(found, 1.2, count=2)
    assert rows(found)[0] == 5.0
    assert not found.unsure(ALONE, 1)
    learn(found, 1.2, count=2)
    assert rows(found)[0] == 1.0
    assert found.unsure(ALONE, 1), "a plain pass is due"


def test_behind_a_long_text_a_plain_pass_comes_first():
    found = pace()
    assert not found.unsure(situation([256]), 1)
    assert found.unsure(situation([257]), 1)
    learn(found, 3.0, at=situation([300]))
    assert not found.unsure(situation([257]), 1)
    assert found.unsure(situation([600]), 1), "twice as long"
    assert not pace(fixed=True).unsure(situation([10**6]), 1)


def test_situations_do_not_teach_each_other():
    """As many rows of other slots, or behind longer texts, are another pass."""
    found, four, long = pace(), situation([100] * 4), situation([1000])
    assert len({ALONE, four, long, situation([300])}) == 4
    assert situation([10, 30, 200]) == situation([80, 80, 80])
    learn(found, 3.2, count=4)
    assert rows(found) == [2 * s for s in TARGET]
    assert rows(found, four) == rows(found, long) == list(TARGET)


def test_judging_and_lookups_cost_what_they_took():
    found = pace()
    learn(found, 1.6, count=4, drafter="suffix", draft=0.3, verify=0.4)
    assert rows(found) == pytest.approx([1.1, 1.4, 1.7, 2.0])
    assert bill(found, "suffix", 2).seconds == pytest.approx(0.2)
    assert bill(found, "suffix", 2, 1).seconds == pytest.approx(0.3)


def test_a_draft_models_times_correct_its_table():
    found = pace(model=(0.1, 0.2))
    assert bill(found, "model", 2, unread=2).seconds == pytest.approx(0.3)
    learn(found, 1.4, count=3, drafter="model", draft=0.6, unread=2)
    assert bill(found, "model", 2, unread=2).seconds == pytest.approx(0.6)


def test_requests_share_the_passes_of_a_draft_model():
    """First over what each has not read, then one for each depth."""
    found = pace(model=(0.1, 0.12, 0.14, 0.16))
    assert bill(found, "model", 3, 1).seconds == pytest.approx(0.12 + 0.1 + 0.1)
    assert bill(found, "model", 2, 2, unread=2).seconds == pytest.approx(0.16 + 0.12)
    both = bill(found, "model", 1)
    other = both.copy()
    other.add_all("model", reads(None, 1), 1)
    assert (both.seconds, other.seconds) == pytest.approx((0.1, 0.12))
    assert other.of("model") == pytest.approx(0.12)
    assert other.of("suffix") == 0


def test_the_first_pass_of_a_round_may_take_longer():
    """Once, however many share it; and times correct it with the rest."""
    costs = Costs(
        target=TARGET, draft={"model": (0.1, 0.12), "other": (0.1,)}, first={"model": 0.4}
    )
    found = Pace(costs)
    assert bill(found, "model", 1).seconds == pytest.approx(0.5)
    assert bill(found, "model", 3).seconds == pytest.approx(0.7)
    assert bill(found, "model", 2, 2).seconds == pytest.approx(0.12 + 0.4 + 0.12)
    assert bill(found, "other", 2).seconds == pytest.approx(0.2)
    assert list(found.shared("model", reads(None, 2), 1, 1)) == pytest.approx([0.5, 0.1])
    assert list(found.shared("model", reads(None, 2), 1, 2)) == pytest.approx([0.26, 0.06])
    learn(found, 1.2, count=2, drafter="model", draft=1.0)
    assert bill(found, "model", 3).seconds == pytest.approx(1.4)


def test_reading_a_prompt_is_spread_and_teaches_nothing():
    found = pace(model=(0.1, 0.2))
    spread = 0.1 + (0.2 + 99 * 0.1 - 0.1) / FORGET
    assert bill(found, "model", 2, unread=101).seconds == pytest.approx(spread + 0.1)
    learn(found, 1.4, count=3, drafter="model", draft=9.0, unread=101)
    assert bill(found, "model", 1, unread=101).seconds == pytest.approx(spread)


def test_fixed_costs_stay():
    found = pace(fixed=True, model=(0.1,))
    learn(found, 9.0, count=3, drafter="model", draft=9.0, verify=9.0)
    assert rows(found) == list(TARGET)
    assert bill(found, "model", 1).seconds == 0.1


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
    assert found.first == {"model": 0.0}
    assert found.target[:2] == pytest.approx((1e-3, 1.02e-3))
    assert found.widest == 16
    assert Costs.measured(model(), None).draft == {}


def test_a_first_pass_is_measured_behind_the_targets(monkeypatch, tmp_path):
    asked = []

    def awakening(draft, target, *, cache):
        asked.append((draft, target, cache))
        return 0.25

    monkeypatch.setattr(forerun.pace, "awakening", awakening)
    target, draft = (TabularModel(lambda prefix: (0.5, 0.5), 2) for _ in range(2))
    assert Costs.measured(target, ModelDrafter(draft), tmp_path).first == {"model": 0.25}
    assert asked == [(draft, target, tmp_path)]


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
        (Costs(target=(1.0,), first={"model": -1.0}), "of a first pass are seconds, not -1.0"),
        (Costs(target=(1.0,), first={"model": float("nan")}), "not nan"),
    ):
        with pytest.raises(OptionError, match=said):
            checked_costs(wrong)
