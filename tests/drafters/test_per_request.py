"""The drafters of an engine, and which of them each request has."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from forerun.drafters import HybridDrafter, ModelDrafter, NgramDrafter, PredictionDrafter
from forerun.drafters.base import parts
from forerun.drafters.per_request import PerRequestDrafter
from forerun.errors import OptionError

from .contract import ask, tabular

PROMPT = [0, 1, 2, 0, 1]


def drafted(drafter, slot, name, output=()):
    request = dataclasses.replace(ask(slot, PROMPT, output, 3), drafter=name)
    return drafter.propose([request])[0].tree.tokens


def test_each_request_has_its_own():
    drafter = PerRequestDrafter(HybridDrafter([NgramDrafter(), ModelDrafter(tabular())]))
    assert drafter.usual == ("ngram", "model")
    drafter.begin(0, PROMPT)
    drafter.begin(1, PROMPT, names=["model"])
    drafter.begin(2, PROMPT, names=[])
    drafter.begin(3, PROMPT, names=["prediction", "ngram"], prediction=(3, 2, 1))
    found = {slot: list(parts(drafter, slot)) for slot in range(4)}
    assert found == {
        0: ["ngram", "model"], 1: ["model"], 2: [], 3: ["prediction", "ngram"]
    }  # fmt: skip
    assert drafted(drafter, 0, "ngram") == drafted(drafter, 3, "ngram") == (2, 0, 1)
    assert drafted(drafter, 3, "prediction") == (3,), "3 ends the text"
    with pytest.raises(KeyError):
        drafted(drafter, 1, "ngram")


def test_an_engine_without_drafters_follows_predictions():
    drafter = PerRequestDrafter(None)
    drafter.begin(0, PROMPT)
    drafter.begin(1, PROMPT, names=["prediction"], prediction=(2, 2, 1, 0))
    drafter.begin(2, PROMPT, names=["prediction"], prediction=(1, 0))
    assert parts(drafter, 0) == {}
    drafter.observe(1, [2])
    assert drafted(drafter, 1, "prediction", [2]) == (2, 1, 0)
    assert drafted(drafter, 2, "prediction") == (1, 0)


def test_the_requests_own_prediction_comes_before_the_engines():
    drafter = PerRequestDrafter(PredictionDrafter([0, 0, 0]))
    drafter.begin(0, PROMPT)
    drafter.begin(1, PROMPT, names=["prediction"], prediction=(1, 2))
    assert drafted(drafter, 0, "prediction") == (0, 0, 0)
    assert drafted(drafter, 1, "prediction") == (1, 2)


def test_a_batch_of_several_is_parted():
    drafter = PerRequestDrafter(NgramDrafter())
    drafter.begin(0, PROMPT)
    drafter.begin(1, PROMPT, names=["prediction"], prediction=(1, 2))
    asked = [
        dataclasses.replace(ask(slot, PROMPT, [], 3), drafter=name)
        for slot, name in enumerate(["ngram", "prediction"])
    ]
    assert [p.tree.tokens for p in drafter.propose(asked)] == [(2, 0, 1), (1, 2)]


def test_what_ends_leaves_nothing_behind():
    drafter = PerRequestDrafter(HybridDrafter([NgramDrafter(), ModelDrafter(tabular())]))
    before = pickle.dumps(drafter)
    drafter.begin(0, PROMPT, names=["ngram"])
    drafter.begin(1, PROMPT, names=["prediction"], prediction=(1, 2))
    drafter.observe(0, [1, 2])
    drafter.end(1)
    drafter.end(0)
    assert pickle.dumps(drafter) == before


def test_a_slot_that_one_of_them_refuses_is_left_by_all():
    busy = ModelDrafter(tabular())
    busy.begin(0, PROMPT)
    drafter = PerRequestDrafter(HybridDrafter([NgramDrafter(), busy]))
    with pytest.raises(OptionError, match="another engine"):
        drafter.begin(0, PROMPT)
    drafter.begin(0, PROMPT, names=["ngram"])
