"""The law's test as a whole: fair, in order, and plain in what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forerun.certify import tiny
from forerun.certify.alternatives import COPIES
from forerun.certify.law_test import LawTest
from forerun.certify.observation import Observation, copied
from forerun.errors import OptionError

P = np.array([0.5, 0.25, 0.25])
Q = np.array([0.2, 0.7, 0.1])


class Fixed:
    """Noise with given values."""

    def __init__(self, values):
        self.values = list(values)

    def random(self, n):
        return np.array([self.values.pop(0) for _ in range(n)])


def seen(sequence, position, token, p=P, **more):
    return Observation(
        sequence=sequence, position=position, token=token, p=p, q=Q, prefix=[0] * (position + 1),
        depth=position % 2, **more,
    )  # fmt: skip


def log_e(tokens, noise):
    test = LawTest()
    test._noise = Fixed(noise)
    for position, token in enumerate(tokens):
        test.observe(seen(0, position, token, others={"stale": Q}))
    return test.verdict().log_e


def test_the_whole_is_fair():
    """Mean of the e-value after one more token, over tokens by p, and over v."""
    past, noise = [0, 1, 1, 2, 0], [0.1, 0.6, 0.3, 0.9, 0.5]
    grid = (np.arange(50) + 0.5) / 50  # between the places where u comes to another bin
    following = np.mean(
        [sum(P[x] * math.exp(log_e([*past, x], [*noise, v])) for x in range(3)) for v in grid]
    )
    assert following == pytest.approx(math.exp(log_e(past, noise)), rel=1e-9)


def run(rule="lossless", sequences=200, pair=None, **options):
    pair = tiny.random_pair(seed=1, cut=0.1) if pair is None else pair
    texts = tiny.sample(
        pair, sequences, max_tokens=32, rng=np.random.default_rng(5), rule=tiny.rule(rule)
    )
    test = LawTest(**options)
    for block in tiny.observed(pair, texts, at_once=20):
        test.observe_block(block)
    return test


def test_a_lossless_engine():
    verdict = run(sequences=4000).verdict()
    assert not verdict.fault
    assert verdict.tokens == 128_000
    assert verdict.sequences == 4000
    assert {each.name for each in verdict.excluded} > {"lenience 0.95", "draft mixture"}
    said = verdict.sentence
    assert said.startswith(
        "no fault found in 128,000 tokens of 4,000 sequences (false alarm ≤ 1e-06"
    )
    assert (
        "excluded at 1e-06, of mean TV ≥ 0.01: lenience 0.95, draft mixture, resample from p"
        in said
    )
    assert "sup|G(u) − u| ≤ 0.0" in said


def test_few_tokens_exclude_nothing_and_it_says_so():
    verdict = run(sequences=10).verdict()
    assert "not excluded: lenience 0.95 (mean TV 0.0" in verdict.sentence
    assert "excluded at 1e-06" not in verdict.sentence
    assert (
        "excluded where it acts at half of the places: draft mixture (mean TV 0.4"
        in verdict.sentence
    )


def test_a_faulty_engine():
    test = run("resample from p")
    verdict = test.verdict()
    assert verdict.fault
    assert test.fault
    assert verdict.sentence.startswith("not lossless: e-value 1e+")
    assert verdict.sentence.endswith("strongest: resample from p")
    assert test.history[0][0] == 640
    assert max(log for _, log in test.history) == verdict.peak_log_e


def test_one_token_of_probability_zero_is_enough():
    test = run("coin that accepts p = 0", level=1e-300)
    verdict = test.verdict()
    assert verdict.fault
    assert verdict.zero_count >= 1
    first = verdict.zeros[0]
    assert f"first token {first.token} at position {first.position} of" in verdict.sentence
    assert verdict.tokens == 6400


def test_without_a_draft_it_says_what_is_not_known():
    test = LawTest()
    for sequence in range(2):
        test.observe(
            Observation(sequence=sequence, position=0, token=0, p=np.array([1.0, 0.0]), prefix=[0])
        )
    assert "no alternative is known" in test.verdict().sentence  # nor anything to copy


@pytest.mark.parametrize(
    "then", [(1, 1), (2, 0), (0, 0), (0, 2)], ids=["late", "skipped", "again", "gap"]
)
def test_what_does_not_follow_is_refused(then):
    test = LawTest()
    test.observe(seen(0, 0, 1))
    with pytest.raises(OptionError, match="submission order, none left out"):
        test.observe(seen(*then, 1))


def test_blocks_are_checked_too():
    pair = tiny.random_pair(seed=1)
    texts = tiny.sample(pair, 4, max_tokens=3, rng=np.random.default_rng(0))
    (block,) = tiny.observed(pair, texts)
    test = LawTest()
    test.observe_block(block)
    assert test.sequences == 4
    with pytest.raises(OptionError, match="position 0 of sequence 0 came after position 2 of"):
        test.observe_block(block)
    (block,) = tiny.observed(pair, texts.chosen(np.array([0, 1])), first=5)
    with pytest.raises(OptionError, match="position 0 of sequence 5 came after nothing"):
        LawTest().observe_block(block)


def test_one_by_one_is_the_same_as_in_blocks():
    pair = tiny.random_pair(seed=1)
    texts = tiny.sample(pair, 30, max_tokens=9, rng=np.random.default_rng(0))
    blocks, single = LawTest(), LawTest()
    for block in tiny.observed(pair, texts, at_once=7):
        blocks.observe_block(block)
    for i in range(30):
        prefix = [0]
        for t, token in enumerate(texts.tokens[i]):
            row = pair.row(prefix)
            q = pair.q[row] if texts.drafted[i, t] else None
            single.observe(
                Observation(
                    sequence=i, position=t, token=int(token), p=pair.p[row], q=q, prefix=prefix,
                    depth=int(texts.depth[i, t]), prompt=None,
                )
            )  # fmt: skip
            prefix = [*prefix, int(token)]
    one, other = blocks.verdict(), single.verdict()
    assert one.tokens == other.tokens
    assert one.band == other.band
    told = [each for each in other.alternatives if each.name != COPIES]  # blocks did not say
    for left, right in zip(one.alternatives, told, strict=True):
        assert (left.name, left.tokens) == (right.name, right.tokens)
        assert left.bound == pytest.approx(right.bound)
        assert left.log_e == pytest.approx(right.log_e)
    by_name = {bet.name: bet.log_e for bet in other.bets}
    for bet in one.bets:
        if "beginning" not in bet.name:  # classes of its own there
            assert by_name[bet.name] == pytest.approx(bet.log_e)


def test_copies_that_go_unjudged_are_found_and_excluded_without_q():
    """A lookup's guess is emitted unjudged once in ten, or never."""
    pair, rng = tiny.random_pair(vocabulary=16, seed=6), np.random.default_rng(1)
    for share in (0.1, 0.0):
        test = LawTest()
        for i in range(150 if share else 400):
            text = [0]
            for position in range(32):
                p, guess = pair.p[pair.row(text)], copied(text)
                lucky = guess >= 0 and rng.random() < share
                token = guess if lucky else int(rng.choice(16, p=p))
                test.observe(
                    Observation(sequence=i, position=position, token=token, p=p, prefix=text)
                )
                text = [*text, token]
        verdict = test.verdict()
        assert verdict.fault == (share > 0)
        (copies,) = [each for each in verdict.alternatives if each.name == COPIES]
        assert copies.log_e > 13.8 if share else copies.excluded_as_it_is


@pytest.mark.parametrize("by", ["last id", "prompt", "class"])
def test_opposite_faults_of_two_contexts(by):
    """Token 0 with .6 in one and .4 in the other, where .5 is right: together they cancel."""
    test, rng = LawTest(), np.random.default_rng(2)
    for i in range(3000):
        side = i % 2
        token = int(rng.random() < (0.4, 0.6)[side])
        test.observe(
            Observation(
                sequence=i, position=0, token=token, p=np.array([0.5, 0.5]),
                prefix=[side if by == "last id" else 0], prompt=side if by == "prompt" else 0,
                context=f"class {side}" if by == "class" else None,
            )
        )  # fmt: skip
    verdict = test.verdict()
    assert verdict.fault
    won = {bet.name: bet.log_e for bet in verdict.bets}
    assert won["u by likelihood"] < 3
    assert won["u by id"] < 3


@pytest.mark.parametrize("options", [{"level": 0}, {"level": 1.0}, {"claim": -1}])
def test_what_cannot_be_is_refused(options):
    with pytest.raises(OptionError, match="must lie between 0 and 1"):
        LawTest(**options)


def test_a_large_vocabulary():
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.full(5000, 0.05), 4)
    test = LawTest()
    for i in range(120):
        row = i % 4
        token = int(rng.choice(5000, p=p[row]))
        test.observe(
            Observation(sequence=i, position=0, token=token, p=p[row], q=p[row - 1], prefix=[row])
        )
    verdict = test.verdict()
    assert verdict.tokens == 120
    assert not verdict.fault


def test_counts_for_pictures():
    test = run(sequences=10)
    assert sum(int(c.sum()) for c in test.counts("likelihood", "context").values()) == 320
    assert list(test.counts("likelihood")) == [None]
