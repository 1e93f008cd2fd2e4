"""The randomised probability integral transform: u = F(x−) + v·p(x), uniform if x follows p.

F sums p over the tokens that come before x in some order, v is uniform and the test's own. The
order may be any that is known before x is drawn; each shows other faults well:

    likelihood   the likelier first              temperature, cut tails, greedy leanings
    draft ratio  the larger q/p first            what a lenient verifier lets through
    draft        the larger q first              the draft's favourites
    recent       the latest ids first            penalties, copies
    id           the lower id first              a law permuted, or of another vocabulary

Equal places go to the lower id. Rows that hold no q have no place in the orders by it. Large
vocabularies are made small first: per row the K largest of p + q, and the rest as one token, which
keeps every law true and only loses what happens within the rest.

What this module does not know: bets. (Rosenblatt 1952; randomised for atoms: Ferguson 1967, 5.3.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forerun.certify.observation import Array, Block

Score = Callable[[Block], Array]
"""Of a block, the place [N, V] of each token in an order: the larger comes first."""


def transform(block: Block, score: Array, v: Array) -> Array:
    """u [N] of the block's tokens by `score` [N, V], with uniforms `v` [N]. NaN where score is."""
    rows = np.arange(len(block))
    own = score[rows, block.token][:, None]
    ids = np.arange(block.p.shape[1])
    before = (score > own) | ((score == own) & (ids < block.token[:, None]))
    u = np.where(before, block.p, 0.0).sum(axis=1) + v * block.p[rows, block.token]
    known: NDArray[np.bool_] = ~np.isnan(own[:, 0])
    return np.where(known, np.clip(u, 0.0, 1.0), np.nan)


def _likelihood(block: Block) -> Array:
    return block.p


@np.errstate(divide="ignore", invalid="ignore")
def _ratio(block: Block) -> Array:
    q = drafts(block)
    return np.where(np.isnan(q), np.nan, np.where(q > 0, q / block.p, 0.0))


def _recent(block: Block) -> Array:
    score = block.p / 2  # among ids not seen, the likelier first
    rows = np.arange(len(block))
    for age in reversed(range(block.recent.shape[1])):
        ids = block.recent[:, age]
        there = (ids >= 0) & (ids < block.p.shape[1])
        score[rows[there], ids[there]] = block.recent.shape[1] - age
    return score


def _by_id(block: Block) -> Array:
    return np.broadcast_to(-np.arange(block.p.shape[1], dtype=np.float64), block.p.shape)


def drafts(block: Block) -> Array:
    """q [N, V], rows of NaN where it is not known."""
    return np.full_like(block.p, np.nan) if block.q is None else block.q


ORDERS: dict[str, Score] = {
    "likelihood": _likelihood,
    "draft ratio": _ratio,
    "draft": drafts,
    "recent": _recent,
    "id": _by_id,
}

MOST = 1024
"""Tokens that keep a place of their own in a row; vocabularies up to twice this stay whole."""


def normalised(block: Block) -> Block:
    """With laws whose rows sum to 1 in float64."""
    return replace(
        block,
        p=_unit(block.p),
        q=None if block.q is None else _unit(block.q),
        others={name: _unit(law) for name, law in block.others.items()},
    )


def coarse(block: Block, most: int = MOST) -> Block:
    """The block over `most` + 1 tokens, the last of which is all others together.

    Which tokens keep their place depends on p and q alone, never on the token that was emitted.
    """
    size = block.p.shape[1]
    if size <= 2 * most:
        return block
    weight = block.p if block.q is None else block.p + np.nan_to_num(block.q)
    kept = np.sort(np.argpartition(weight, size - most, axis=1)[:, size - most :], axis=1)

    def of(law: Array) -> Array:
        own = np.take_along_axis(law, kept, axis=1)
        rest = law.copy()  # summed by itself: a difference would round, and 0 must stay 0
        np.put_along_axis(rest, kept, 0.0, axis=1)
        return np.concatenate([own, rest.sum(axis=1, keepdims=True)], axis=1)

    return replace(
        block,
        token=_places(kept, block.token[:, None])[:, 0],
        p=of(block.p),
        q=None if block.q is None else of(block.q),
        recent=_places(kept, block.recent),
        copied=None if block.copied is None else _places(kept, block.copied[:, None])[:, 0],
        others={name: of(law) for name, law in block.others.items()},
    )


def _places(kept: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each of `ids` [N, R] among its row's `kept` [N, K], which rise; K: not there.

    −1, which is none, stays."""
    found = np.full(ids.shape, kept.shape[1], dtype=np.int64)
    for row, (own, wanted) in enumerate(zip(kept, ids)):
        at = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        found[row] = np.where(wanted < 0, -1, np.where(own[at] == wanted, at, len(own)))
    return found


def _unit(law: Array) -> Array:
    found: Array = law / law.sum(axis=1, keepdims=True)
    return found
