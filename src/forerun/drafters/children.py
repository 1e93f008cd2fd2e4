"""How a node's children are chosen from the draft's law q: tokens, each with the law it came from.

    without_replacement    c1 from q, c2 from q without c1, c3 from q without c1 and c2, …
    greedy_plus_one        the count − 1 likeliest, then one from q without those

How many there are is settled before the first is drawn; fewer come where q has no mass left. They
stay in this order, for verifiers judge them in it: another order, by p, by q or by id, would make
the law that a child was drawn from another one.

What this module does not know: models, trees, where the randomness comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forerun.numerics.likeliest import head
from forerun.numerics.restricted import without

Child = tuple[int, Any]
"""A token, and the law [V] that it was drawn from; None for a point mass."""

Draw = Callable[[Any, int], int]
"""(law, how many children were drawn before) -> token."""


def without_replacement(q: Any, count: int, draw: Draw) -> list[Child]:
    """With a sampler that races, those are the first `count` of one race over q."""
    found: list[Child] = []
    left: Any | None = q
    while left is not None and len(found) < count:
        token = draw(left, len(found))
        found.append((token, left))
        left = without(left, [token])
    return found


def greedy_plus_one(q: Any, count: int, draw: Draw) -> list[Child]:
    """Hu et al. 2025, arXiv 2502.18779, section 4."""
    likeliest = [token for token, _ in head(q, count - 1)]
    found: list[Child] = [(token, None) for token in likeliest]
    if (rest := without(q, likeliest)) is not None:
        found.append((draw(rest, len(found)), rest))
    return found
