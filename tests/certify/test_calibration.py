"""False alarms: how often lossless engines fail, looked at after every text and stopped at will.

Level .05 and 1,000 runs: the number of alarms is at most the 99.9% quantile of a binomial, 73. A
collection that favours short texts must raise them.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from forerun.certify import tiny
from forerun.certify.alternatives import FAULTS, bound
from forerun.certify.bets import FaultSums
from forerun.certify.law_test import LawTest

LEVEL = 0.05
LOOK = 12  # texts from look to look


def most(runs):
    return int(stats.binom.ppf(0.999, runs, LEVEL))


def alarms(pair, texts, runs, collected):
    """Runs that raise an alarm, over equal shares of the texts; `collected` says which count."""
    each, found = len(texts) // runs, 0
    for run in range(runs):
        own = texts.chosen(np.arange(run * each, (run + 1) * each))
        test = LawTest(level=LEVEL, seed=run)
        for block in tiny.observed(pair, own.chosen(collected(own)), at_once=LOOK):
            test.observe_block(block)
        test.verdict()
        found += test.fault
    return found


def everything(texts):
    return np.arange(len(texts))


def deadline(texts, slots=8, ticks=90):
    """So many at a time; at the deadline, all before the first that is not done."""
    return np.arange(tiny.drained(tiny.finished(texts.lengths, slots=slots, deadline=ticks)))


def whoever_is_done(texts, slots, ticks):
    """Whatever is done at the deadline: short texts come too often."""
    return np.flatnonzero(tiny.finished(texts.lengths, slots=slots, deadline=ticks))


def ending(seed=1):
    return tiny.random_pair(vocabulary=8, seed=seed, eos=3)


def plain(runs, texts, *, pair, max_tokens=32, **options):
    rng = np.random.default_rng(11)
    return tiny.sample(pair, runs * texts, max_tokens=max_tokens, rng=rng, **options)


def test_the_most_that_chance_allows():
    assert most(1000) == 73


def test_a_thousand_runs_with_an_end_and_a_deadline():
    pair, runs = ending(), 1000
    texts = plain(runs, 60, pair=pair, max_tokens=64, num_draft=0)
    assert alarms(pair, texts, runs, deadline) <= most(runs)


def test_taking_whoever_is_done_fails_an_honest_engine():
    """So that the test above could fail."""
    pair, runs, ticks = ending(), 20, {"slots": 400, "ticks": 24}
    texts = plain(runs, 1200, pair=pair, max_tokens=64, num_draft=0)
    assert alarms(pair, texts, runs, lambda own: whoever_is_done(own, **ticks)) == runs
    assert alarms(pair, texts, runs, lambda own: deadline(own, **ticks)) <= most(runs)


@pytest.mark.parametrize("num_draft", [0, 3])
def test_lossless_runs(num_draft):
    pair, runs = tiny.random_pair(vocabulary=16, seed=2, cut=0.05), 100
    texts = plain(runs, 25, pair=pair, num_draft=num_draft)
    assert alarms(pair, texts, runs, everything) <= most(runs)


@pytest.mark.long
@pytest.mark.parametrize("num_draft", [0, 4])
@pytest.mark.parametrize("pair", [
    tiny.random_pair(vocabulary=8, seed=1),
    tiny.random_pair(vocabulary=16, seed=4, order=2, cut=0.1),
    tiny.random_pair(vocabulary=64, seed=5, closeness=0.9),
    tiny.rounding_pair(),
], ids=["8", "16, two back, cut", "64, close", "rounding"])  # fmt: skip
def test_a_thousand_lossless_runs(pair, num_draft):
    texts = plain(1000, 50, pair=pair, num_draft=num_draft)
    assert alarms(pair, texts, 1000, everything) <= most(1000)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_thousand_deadlines(seed):
    pair = ending(seed)
    texts = plain(1000, 60, pair=pair, max_tokens=64)
    assert alarms(pair, texts, 1000, deadline) <= most(1000)


@pytest.mark.parametrize("name", ["lenience 0.95", "resample from p"])
def test_a_fault_that_is_there_is_hardly_ever_excluded(name):
    """The bound of its mean TV is below what is there in at most level of the runs, at any look.

    The tokens are of whole rounds, so that the fault acts at some places and hides at others.
    """
    pair, runs, failures = tiny.random_pair(vocabulary=8, seed=1), 400, 0
    r = FAULTS[name](pair.p, pair.q)
    tv = 0.5 * np.abs(r - pair.p).sum(axis=1)
    texts = plain(runs, 40, pair=pair, rule=tiny.rule(name), num_draft=2)
    for run in range(runs):
        sums, there = FaultSums.of(0.01), 0.0
        own = texts.chosen(np.arange(run * 40, (run + 1) * 40))
        for block in tiny.observed(pair, own, at_once=8):
            row = block.classes["context"]
            sums.observe(block.p, r[row], block.token)
            there += float(tv[row][block.classes["depth"] < 2].sum())
            if bound(sums, LEVEL, 0.01) < there / sums.tokens:
                failures += 1
                break
    assert failures <= most(runs)
