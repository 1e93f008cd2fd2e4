"""How far drafts will survive: s_i = Pr(at least i of the drafted tokens are accepted), estimated
from a request's own rounds and, while those are few, from those of all requests before it. Of a
tree s_i is the chance of its i-th node, the likeliest first: their sum is the accepted tokens too.

What this module does not know: what drafting costs, and what is done with the estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forerun.drafters.base import Outlook, Trees
from forerun.numerics.token_tree import ROOT, TokenTree
from forerun.numerics.tree_shape import Shape, growth


class Acceptance:
    """Pr(a drafted token is accepted | those before it were): of one drafter in one request.

    Rounds that drafted fewer than i tokens, or accepted fewer than i − 1, say nothing of the i-th.
    Counts are kept for tokens alike: alike in the chance that the drafter gave them or, where it
    gives none, in depth. Where there are few, that chance is believed, or what all depths together
    say; it is worth WEIGHT observations. Old ones count less, and that belief as well: by FADE for
    each new one (each new round, where all depths are together).

    Tokens of trees are alike in rank: counted is whether child i of an accepted node is the
    accepted one, if those before it are not. So the chances of ranks that were never drafted follow
    from what is left to them.

    `usual` is what became of this drafter's drafts in all requests; it is believed before the
    drafter's own chances are, and learns what this one learns, but forgets more slowly. It is worth
    OWN observations, so that a few unlucky rounds do not end what pays by little.
    """

    WEIGHT, OWN, FADE, FIRST = 4.0, 20.0, 0.95, 0.6
    LEVELS, LEAST, KNOWN = 10, 0.02, 20.0
    FIRST_CHILD, NEXT_CHILD, CHILDREN = 0.6, 0.5, 8  # ranks beyond are like the last

    def __init__(
        self, usual: Acceptance | None = None, *, fade: float = FADE, first: float = FIRST
    ) -> None:
        self._usual, self._fade, self._first = usual, fade, first
        self._weight = self.WEIGHT if usual is None else self.OWN
        self._counts: dict[int, tuple[float, float]] = {}  # accepted, judged
        self._all = (0.0, 0.0)

    def survival(self, found: Outlook, most: int) -> Sequence[float]:
        """s_1, s_2, … of a draft with that outlook, as far as they are LEAST: what comes behind is
        worth no row of any pass."""
        survival, s = list[float](), 1.0
        for i in range(min(most, found.most)):
            s *= self._chance(found, i)
            if survival and s < self.LEAST:
                break
            survival.append(s)
        return survival

    def ranks(self) -> Sequence[float]:
        """Pr(child i of an accepted node is the one accepted); they do not rise."""
        found, left = list[float](), 1.0
        for rank in range(self.CHILDREN):
            chance = self._of_rank(rank)
            found.append(min(left * chance, found[-1] if found else 1.0))
            left *= 1 - chance
        return found

    def learn(self, found: Outlook, tree: TokenTree, path: Sequence[int]) -> None:
        """Of a round that drafted `tree`, in which `path` was accepted.

        A draft that was promised and came to nothing is as good as a rejected one.
        """
        if found.trees is not None:
            judged = list(self._by_rank(tree, path)) or [(0, False)]
        else:
            reached = min(len(path) + 1, max(len(tree), 1), found.most)
            judged = [(self._kind(found, i), i < len(path)) for i in range(reached)]
        for kind, accepted in judged:
            good, count = self._counts.get(kind, (0.0, 0.0))
            self._counts[kind] = (self._fade * good + accepted, self._fade * count + 1)
        good, count = self._all
        self._all = (self._fade * good + len(path), self._fade * count + len(judged))
        if self._usual is not None:
            self._usual.learn(found, tree, path)

    @property
    def known(self) -> bool:
        """Whether other requests have shown what drafts are worth."""
        return self._usual is not None and self._usual._all[1] >= self.KNOWN

    def forget(self, rounds: int) -> None:
        """Count what was seen until now as if that many observations had followed."""
        fade = self._fade**rounds
        self._counts = {kind: (fade * a, fade * n) for kind, (a, n) in self._counts.items()}
        self._all = (fade * self._all[0], fade * self._all[1])

    def _chance(self, found: Outlook, i: int) -> float:
        """Of token i, if those before it are accepted."""
        if self._usual is not None:
            before = self._usual._chance(found, i)
        elif found.chances is not None:
            before = found.chances[i]
        else:
            before = self._first
        if found.chances is None:
            before = self._estimate(self._all, before)
        return self._estimate(self._counts.get(self._kind(found, i), (0.0, 0.0)), before)

    def _of_rank(self, rank: int) -> float:
        """Of child `rank` of an accepted node, if those before it are not."""
        before = self.FIRST_CHILD if rank == 0 else self.NEXT_CHILD
        if self._usual is not None:
            before = self._usual._of_rank(rank)
        return self._estimate(self._counts.get(rank, (0.0, 0.0)), before)

    def _by_rank(self, tree: TokenTree, path: Sequence[int]) -> Iterator[tuple[int, bool]]:
        """Rank, and whether it was accepted, of each child that was judged."""
        for node, taken in zip((ROOT, *path), (*path, None)):
            for rank, child in enumerate(tree.children_of(node)):
                yield min(rank, self.CHILDREN - 1), child == taken
                if child == taken:
                    break

    def _estimate(self, counts: tuple[float, float], before: float) -> float:
        good, judged = counts
        weight = self._weight * max(1 - judged * (1 - self._fade), 0.0)
        return (good + weight * before) / (judged + weight)

    def _kind(self, found: Outlook, i: int) -> int:
        return i if found.chances is None else int(found.chances[i] * self.LEVELS)


def likely(
    ranks: Sequence[float], trees: Trees, most: int, depth: int
) -> tuple[Shape, Sequence[float]]:
    """Parents and chances of a tree's `most` likeliest nodes no deeper than `depth`, as far as they
    are LEAST, for chances by rank."""
    parents, chances = growth(ranks, most, depth, trees.shape)
    worth = (i for i, s in enumerate(chances) if i and s < Acceptance.LEAST)
    count = next(worth, len(chances))
    return parents[:count], chances[:count]
