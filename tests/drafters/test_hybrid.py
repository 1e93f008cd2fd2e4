"""Several drafters: who is asked, what the others see, and what it costs."""

from __future__ import annotations

import dataclasses

import pytest

from forerun.drafters import HybridDrafter, ModelDrafter, NgramDrafter, SuffixDrafter
from forerun.drafters.base import begin, outlook, parts
from forerun.errors import OptionError, VocabularyError
from forerun.models.tabular import TabularModel
from forerun.numerics.token_tree import Drawn

from .contract import V, ask, tabular


class Counting(TabularModel):
    """Counts the tokens it was fed."""

    fed = 0

    def extend(self, steps):
        self.fed += sum(len(step.tokens) for step in steps)
        return super().extend(steps)


def counting() -> Counting:
    return Counting(lambda prefix: [0.25] * V, V)


def asked(name: str | None, output: list[int], num_draft: int = 3):
    return dataclasses.replace(ask(0, [0, 1, 2, 0, 1], output, num_draft), drafter=name)


def begun(*drafters):
    found = HybridDrafter(drafters)
    found.begin(0, [0, 1, 2, 0, 1])
    return found


def test_the_one_that_is_asked_drafts():
    drafter = begun(NgramDrafter(), ModelDrafter(tabular()))
    (lookup,) = drafter.propose([asked("ngram", [])])
    assert lookup.drawn is Drawn.DETERMINISTIC
    assert lookup.tree.tokens == (2, 0, 1)
    (sampled,) = drafter.propose([asked("model", [])])
    assert sampled.drawn is Drawn.SAMPLED
    assert all(q is not None for q in sampled.q)


def test_asked_by_no_name_the_first_that_has_something_drafts():
    drafter = begun(NgramDrafter(shortest=2), ModelDrafter(tabular()))
    assert drafter.propose([asked(None, [])])[0].drawn is Drawn.DETERMINISTIC
    drafter.observe(0, [2, 2])
    assert drafter.propose([asked(None, [2, 2])])[0].drawn is Drawn.SAMPLED


def test_in_a_batch_each_gets_its_own():
    drafter = HybridDrafter([NgramDrafter(), ModelDrafter(tabular())])
    for slot in range(3):
        drafter.begin(slot, [0, 1, 2, 0, 1])
    requests = [
        dataclasses.replace(asked(name, []), slot=slot)
        for slot, name in enumerate(("model", "ngram", "model"))
    ]
    drawn = [proposal.drawn for proposal in drafter.propose(requests)]
    assert drawn == [Drawn.SAMPLED, Drawn.DETERMINISTIC, Drawn.SAMPLED]


def test_a_model_that_is_not_asked_does_not_run_and_catches_up_when_it_is():
    model = counting()
    drafter = begun(NgramDrafter(), ModelDrafter(model))
    output: list[int] = []
    for _ in range(4):
        drafter.propose([asked("ngram", output)])
        drafter.observe(0, [2, 0])
        output += [2, 0]
    assert model.fed == 0
    said = outlook(drafter.parts["model"], 0, 5 + len(output), 3)
    assert (said.most, said.unread, said.chances) == (3, 13, None)
    drafter.propose([asked("model", output)])
    assert model.fed == 13 + 2
    drafter.observe(0, [3])
    assert outlook(drafter.parts["model"], 0, 14, 3).unread == 1


def test_all_of_them_follow_the_text():
    drafter = begun(NgramDrafter(), SuffixDrafter())
    drafter.propose([asked("ngram", [])])
    drafter.observe(0, [3, 3, 1, 3])
    for name in ("ngram", "suffix"):
        (proposal,) = drafter.propose([asked(name, [3, 3, 1, 3])])
        assert proposal.tree.tokens[0] == 3


def test_traits_and_names():
    drafter = HybridDrafter([SuffixDrafter(), ModelDrafter(tabular())])
    assert drafter.name == "suffix+model"
    assert (drafter.traits.drawn, drafter.traits.laws) == (Drawn.SAMPLED, True)
    lookups = HybridDrafter([SuffixDrafter(), NgramDrafter()])
    assert (lookups.traits.drawn, lookups.traits.laws) == (Drawn.DETERMINISTIC, False)
    assert list(parts(drafter)) == ["suffix", "model"]
    single = NgramDrafter()
    assert parts(single) == {"ngram": single}
    assert parts(None) == {}


def test_each_is_checked():
    drafter = HybridDrafter([SuffixDrafter(), ModelDrafter(tabular())])
    with pytest.raises(VocabularyError):
        drafter.check(TabularModel(lambda prefix: (0.5, 0.5), 2))


@pytest.mark.parametrize("wrong", [[], [NgramDrafter()], [NgramDrafter(), NgramDrafter()]])
def test_fewer_than_two_or_twice_the_same(wrong):
    with pytest.raises(OptionError, match="at least two with different names, not "):
        HybridDrafter(wrong)


def test_a_slot_that_one_of_them_refuses_is_left_by_all():
    busy = ModelDrafter(tabular())
    busy.begin(0, [1])
    drafter = HybridDrafter([NgramDrafter(), busy])
    with pytest.raises(OptionError, match="another engine"):
        drafter.begin(0, [0, 1])
    busy.end(0)
    drafter.begin(0, [0, 1])


class WithoutTenants(NgramDrafter):
    """As drafters were written before there were tenants; this one notes what it was told."""

    def begin(self, slot, prompt, *, recall=True):
        super().begin(slot, prompt, recall=recall)
        self.recall = recall


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("tenant", ["", "a"])
def test_tenants_reach_those_that_know_them(recall, tenant):
    """One that does not may have memory, so that it is to recall nothing for a tenant."""
    memory, old = SuffixDrafter(memory_bytes=1 << 16), WithoutTenants()
    drafter = HybridDrafter([memory, old])
    begin(drafter, 0, [0, 1], recall=recall, tenant=tenant)
    assert old.recall is (recall and tenant == "")
    drafter.end(0)
    assert [len(memory.memory.texts(name)) for name in ("", "a")] == [tenant == "", tenant == "a"]
    begin(old, 1, [0, 1], recall=recall, tenant=tenant)
    assert old.recall is (recall and tenant == "")
