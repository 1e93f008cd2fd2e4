"""Tiny pairs: their sampler against exact laws, and against forerun's own engine."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from forerun.certify import plain_law, tiny
from forerun.errors import OptionError, UnknownNameError

COUNT = 100_000


def joint(pair, tokens):
    prefix, found = [0], 1.0
    for token in tokens:
        found *= pair.p[pair.row(prefix), token]
        prefix.append(token)
    return found


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("num_draft", [0, 1, 2])
def test_three_tokens_have_the_targets_joint_law(order, num_draft):
    pair = tiny.random_pair(vocabulary=4, seed=2, order=order)
    rng = np.random.default_rng(1)
    texts = tiny.sample(pair, COUNT, max_tokens=3, rng=rng, num_draft=num_draft)
    place = texts.tokens @ np.array([16, 4, 1])
    found = np.bincount(place, minlength=64)
    expected = np.array([joint(pair, y) for y in itertools.product(range(4), repeat=3)]) * COUNT
    z = (found - expected) / np.sqrt(expected)
    assert abs(z).max() < 4.5
    assert (z**2).sum() < 63 + 5 * math.sqrt(2 * 63)


def test_the_tables_are_what_engines_are_given():
    pair = tiny.random_pair(vocabulary=4, seed=2, order=2, eos=3)
    law = plain_law(pair.target(), prompt=(0,), max_tokens=2)
    for tokens, share in law.items():
        assert share == pytest.approx(joint(pair, tokens))
        assert len(tokens) == 2 or tokens[-1] == 3
    assert pair.draft().vocab_size == 4


def test_texts_end_with_the_end():
    pair = tiny.random_pair(vocabulary=4, seed=2, eos=0)
    texts = tiny.sample(pair, 500, max_tokens=9, rng=np.random.default_rng(0))
    for row, length in zip(texts.tokens, texts.lengths):
        assert (row[:length] >= 0).all()
        assert (row[length:] == -1).all()
        assert (row[: length - 1] != 0).all()
        assert length == 9 or row[length - 1] == 0
    blocks = list(tiny.observed(pair, texts, at_once=100))
    assert sum(map(len, blocks)) == texts.lengths.sum()
    assert [len(np.unique(block.sequence)) for block in blocks] == [100] * 5


def test_blocks_hold_the_laws_of_their_prefixes():
    pair = tiny.random_pair(vocabulary=4, seed=2, order=2)
    texts = tiny.sample(pair, 3, max_tokens=5, rng=np.random.default_rng(0), prompt=(1, 2))
    (block,) = tiny.observed(pair, texts, first=7)
    assert block.sequence.tolist() == [7] * 5 + [8] * 5 + [9] * 5
    for i in range(15):
        s, t = i // 5, i % 5
        prefix = [1, 2, *texts.tokens[s, :t]]
        assert block.p[i].tolist() == pair.p[pair.row(prefix)].tolist()
        assert block.recent[i, :2].tolist() == prefix[::-1][:2]
        assert np.isnan(block.q[i]).all() == (block.classes["depth"][i] == 4)


def test_depths_count_the_tokens_of_the_round():
    pair = tiny.random_pair(vocabulary=4, seed=2, closeness=0.9)
    texts = tiny.sample(pair, 300, max_tokens=40, rng=np.random.default_rng(0), num_draft=3)
    steps = np.diff(texts.depth, axis=1)
    assert set(np.unique(texts.depth)) == {0, 1, 2, 3}
    assert ((steps == 1) | (texts.depth[:, 1:] == 0)).all()
    assert (texts.drafted == (texts.depth < 3)).all()


def test_a_rounding_pair_is_rounded_badly():
    pair = tiny.rounding_pair()
    q = pair.q[0]
    rounded = tiny.faults.bfloat16(q)
    assert np.abs(rounded / q - 1).max() > 0.0025
    assert q.sum() == pytest.approx(1)
    assert pair.p[0].sum() == pytest.approx(1)


def test_a_cut_target_never_writes_some():
    pair = tiny.random_pair(seed=1, cut=0.2)
    assert (pair.p == 0).any()
    assert pair.p.sum(axis=1) == pytest.approx(1)
    texts = tiny.sample(pair, 2000, max_tokens=20, rng=np.random.default_rng(0))
    for block in tiny.observed(pair, texts):
        assert (block.p[np.arange(len(block)), block.token] > 0).all()


def test_a_deadline():
    lengths = np.array([5, 2, 2, 9, 1, 1])
    done = tiny.finished(lengths, slots=2, deadline=6)
    # slot 0: request 0 until 5, then 4 until 6; slot 1: 1 until 2, 2 until 4, 3 until 13
    assert done.tolist() == [True, True, True, False, True, False]
    assert tiny.drained(done) == 3
    assert tiny.drained(done[:3]) == 3


def test_what_is_no_pair_or_rule_is_refused():
    with pytest.raises(OptionError, match="vocabulary 1 and order 1"):
        tiny.random_pair(vocabulary=1)
    with pytest.raises(OptionError, match="at most 65,536 rows"):
        tiny.random_pair(vocabulary=64, order=3)
    with pytest.raises(UnknownNameError, match=r"did you mean 'lenience 0\.95'"):
        tiny.rule("lenience 0.9")
