"""The shipped prompts: always the same, none twice, and those that judge apart from the rest."""

from __future__ import annotations

import re
from itertools import islice

from forerun.train import prompts


def test_thousands_come_in_the_same_order_and_none_comes_twice():
    found = list(islice(prompts.training(), 4000))
    assert found[:300] == list(islice(prompts.training(), 300))
    assert len(set(found)) == 4000
    assert found[:300] != list(islice(prompts.training(seed=1), 300))
    assert not any("{" in turn or "%" in turn for turns in found for turn in turns)
    assert any(len(turns) == 2 for turns in found)


def test_held_out_prompts_have_other_templates_and_other_entries():
    train, held = prompts.read()
    assert not set(train.templates) & set(held.templates)
    assert len(train.templates) > 60
    assert sum(map(len, train.lists.values())) > 200
    for name in train.lists:
        assert train.lists[name]
        assert held.lists[name]
        assert not set(train.lists[name]) & set(held.lists[name])


def test_every_place_has_a_list():
    for part in prompts.read():
        texts = [*part.templates, *(entry for some in part.lists.values() for entry in some)]
        places = {name for text in texts for name in re.findall(r"\{(\w+)\}", text)}
        assert places <= {*part.lists, "int", "big"}


def test_entries_of_one_list_differ_within_a_prompt():
    part = prompts.Part(templates=["{a} and {a}"], lists={"a": ["x", "y"]})
    found = {turns[0] for turns in islice(prompts._prompts(part, "s"), 2)}
    assert found == {"x and y", "y and x"}
    assert len(list(prompts._prompts(part, "s"))) == 2  # then there are no more


def test_a_becomes_an_before_vowels():
    part = prompts.Part(templates=["A {a} and a {b}"], lists={"a": ["owl"], "b": ["cat"]})
    assert next(prompts._prompts(part, "s")) == ("An owl and a cat",)
