"""Observations as blocks."""

from __future__ import annotations

import numpy as np
import pytest

from forerun.certify.observation import RECENT, Block, Observation, blocks, copied
from forerun.errors import OptionError

P = np.array([0.5, 0.25, 0.25])


def seen(position, token=0, **more):
    options = {"sequence": 0, "p": P, "prefix": [1, 2, *[0] * position]}
    return Observation(position=position, token=token, **{**options, **more})


def test_rows_stand_in_order_and_what_is_not_known_is_nan():
    q = np.array([0.1, 0.1, 0.8])
    (block,) = blocks([seen(0, 2, q=q, depth=1, setting="s"), seen(1, 1, others={"stale": q})])
    assert block.token.tolist() == [2, 1]
    assert block.q[0].tolist() == q.tolist()
    assert np.isnan(block.q[1]).all()
    assert np.isnan(block.others["stale"][0]).all()
    assert block.recent[0].tolist() == [2, 1] + [-1] * (RECENT - 2)
    assert block.recent[1].tolist() == [0, 2, 1] + [-1] * (RECENT - 3)
    assert block.classes["depth"] == [1, None]
    assert block.classes["context"] == [2, 0]
    assert block.classes["beginning"] == [("s", 0), ("", 0, 0)]


def test_what_a_lookup_would_draft():
    assert copied([]) == copied([5]) == copied([5, 6]) == -1
    assert copied([5, 6, 7, 8, 6]) == 7
    assert copied([5, 6, 7, 9, 6, 8, 5, 6]) == 7  # two ids before one
    assert copied([5, 6, 7, 5, 6, 8, 5, 6]) == 8  # the latest
    assert copied([1, 1, 1]) == 1


def test_without_drafts_there_is_no_q():
    (block,) = blocks([seen(0)])
    assert block.q is None
    assert "depth" not in block.classes


def test_a_new_vocabulary_begins_a_new_block():
    sizes = [b.p.shape for b in blocks([seen(0), seen(1), seen(2, p=np.array([0.5, 0.5]))])]
    assert sizes == [(2, 3), (1, 2)]
    assert list(blocks([])) == []


@pytest.mark.parametrize(
    ("token", "p", "says"),
    [(3, P, "tokens below 3"), (-1, P, "tokens below 3"), (0, P / 2, "sums to 1.5|sum to 1")],
)
def test_what_is_no_observation_is_refused(token, p, says):
    with pytest.raises(OptionError, match=says):
        Block(
            sequence=np.array([0]), position=np.array([0]), token=np.array([token]),
            p=p[None], recent=np.full((1, RECENT), -1),
        )  # fmt: skip
