"""Samples come in submission order, whatever the order of their being done; none is skipped."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace

import pytest

from forerun.certify.collect import Ask, collect
from forerun.certify.engines.base import Traits
from forerun.errors import CapabilityError, PeerError


def asks(count=None):
    numbers = itertools.count() if count is None else range(count)
    for i in numbers:
        yield Ask(
            number=i, setting="s", prompt=(0,), prompt_number=0, n=1, sampling={"max_tokens": 1},
            seed=i,
        )  # fmt: skip


def engine_of(sample, parallel=1):
    return SimpleNamespace(name="e", traits=Traits(parallel=parallel), sample=sample)


def test_the_order_is_that_of_the_asks():
    """Each request waits for the one after it, so that they end in the reverse order."""
    done = [threading.Event() for _ in range(4)]

    def sample(prompt, n, sampling, seed):
        if seed % 4 != 3:
            assert done[seed % 4 + 1].wait(10)
        done[seed % 4].set()
        return [[seed]]

    found = list(collect(engine_of(sample, parallel=4), asks(4)))
    assert [answer.samples for answer in found] == [((i,),) for i in range(4)]


@pytest.mark.parametrize("parallel", [1, 3])
def test_at_a_stop_those_that_run_are_drained(parallel):
    begun = []

    def sample(prompt, n, sampling, seed):
        begun.append(seed)
        return [[seed]]

    found = list(collect(engine_of(sample, parallel), asks(), stop=lambda: len(begun) >= 5))
    assert [answer.ask.number for answer in found] == list(range(len(found)))
    assert len(found) == len(begun)  # all that were begun


def test_one_that_does_not_end_is_dropped_with_all_behind_it():
    release, stop = threading.Event(), threading.Event()

    def sample(prompt, n, sampling, seed):
        if seed == 1:
            stop.set()
            release.wait(20)
        return [[seed]]

    try:
        found = list(collect(engine_of(sample, parallel=3), asks(), stop=stop.is_set, drain=0.05))
    finally:
        release.set()
    assert [answer.ask.number for answer in found] == [0, 1]
    assert found[-1].samples == ()
    assert "dropped" in found[-1].error


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_failed_request_is_asked_again_with_its_seed(parallel):
    tried = []

    def sample(prompt, n, sampling, seed):
        tried.append(seed)
        if tried.count(seed) < 3 and seed == 2:
            raise PeerError("busy")
        return [[seed]]

    found = list(collect(engine_of(sample, parallel), asks(4)))
    assert [answer.samples for answer in found] == [((i,),) for i in range(4)]
    assert [answer.failures for answer in found] == [0, 0, 2, 0]


@pytest.mark.parametrize(("error", "unable"), [(PeerError, False), (CapabilityError, True)])
@pytest.mark.parametrize("parallel", [1, 3])
def test_one_that_fails_for_good_ends_it(error, unable, parallel):
    def sample(prompt, n, sampling, seed):
        if seed == 2:
            raise error("no")
        return [[seed]]

    found = list(collect(engine_of(sample, parallel), asks(6)))
    assert [answer.ask.number for answer in found] == [0, 1, 2]
    assert (found[-1].error, found[-1].unable) == ("no", unable)
