"""Pairs, what they guess, and what is trained of them."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.train import batches
from forerun.train.batches import Corpus
from forerun.train.features import Taps
from forerun.train.texts import Text

TAPS = Taps(chosen=(0, 1), layers=2, hidden=1)


def corpus(texts):
    """A state of row r is [10 r, 10 r + 1, 10 r + 2], the last one the label."""
    starts = np.cumsum([0, *(len(text.ids) - 1 for text in texts)]).tolist()
    states = 10 * np.arange(starts[-1])[:, None] + np.arange(3)
    return Corpus(texts, states.astype(np.float16), starts[:-1], TAPS)


def text(*ids, spans):
    return Text(name="0.0", ids=ids, spans=spans, temperature=1.0)


def test_the_example_of_the_module():
    rows = corpus([text(50, 51, 52, 53, 54, 55, spans=((3, 6),))]).rows([0], steps=2)
    assert rows.tokens.tolist() == [51, 52, 53, 54, 0, 0]
    assert rows.positions.tolist() == [0, 1, 2, 3]
    assert rows.features.tolist() == [[0, 1], [10, 11], [20, 21], [30, 31]]
    assert rows.trained.tolist() == [1, 2, 3]
    assert rows.guessed.tolist() == [53, 54, 55]
    assert rows.ahead.tolist() == [3, 2, 1]
    assert rows.labels.tolist() == [[22], [32], [42]]
    assert rows.behind.tolist() == [2, 3, 4]


def test_texts_stand_one_behind_another():
    some = [
        text(50, 51, 52, 53, spans=((2, 4),)),
        text(60, 61, 62, spans=((0, 3),)),
        text(70, 71, 72, 73, 74, spans=((2, 3), (4, 5))),
    ]
    rows = corpus(some).rows([0, 1, 2], steps=1)
    assert rows.texts.tolist() == [0, 0, 1, 2, 2, 2]
    assert rows.tokens.tolist() == [51, 52, 61, 71, 72, 73, 0]
    assert rows.guessed.tolist() == [52, 53, 62, 72, 74]
    assert rows.ahead.tolist() == [2, 1, 1, 1, 1]
    assert rows.labels.flatten().tolist() == [12, 22, 42, 62, 82]


def test_long_texts_are_cut(monkeypatch):
    monkeypatch.setattr(batches, "LONGEST", 3)
    found = corpus([text(*range(50, 58), spans=((4, 8),))])
    assert [(piece.start, piece.stop) for piece in found.pieces] == [(0, 3), (3, 6)]
    first, second = found.rows([0], steps=1), found.rows([1], steps=1)
    assert (first.guessed.tolist(), first.ahead.tolist()) == ([54], [1])
    assert second.positions.tolist() == [3, 4, 5]
    assert (second.guessed.tolist(), second.ahead.tolist()) == ([55, 56, 57], [3, 2, 1])


@pytest.mark.parametrize("pairs", [1, 7, 100])
def test_a_batch_has_so_many_pairs_at_least(pairs):
    found = corpus([text(*range(50, 50 + n), spans=((2, n),)) for n in (5, 6, 7, 8)])
    groups = list(found.batches([3, 1, 0, 2], pairs))
    assert [i for group in groups for i in group] == [3, 1, 0, 2]
    for group in groups[:-1]:
        sizes = [len(found.pieces[i]) for i in group]
        assert sum(sizes) >= pairs > sum(sizes[:-1])


def test_a_text_without_an_answer_is_no_piece():
    assert len(corpus([text(50, 51, spans=((1, 2),)), text(1, 2, 3, spans=())])) == 0
