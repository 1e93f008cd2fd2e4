"""Drafted trees of random laws, enumerated: how they are drawn, and what a verifier makes of them.

Nothing here is the library's loop: a tree is drawn by `drafters/children.py` from q of each prefix,
judged by a verifier, and completed by p. So shapes and faults are cheap to go through.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from forerun.certify.enumerate import EnumeratedDraws, Tape
from forerun.drafters.children import greedy_plus_one, without_replacement
from forerun.numerics.randomness import Purpose
from forerun.numerics.token_tree import ROOT, Drawn, Proposal, TokenTree
from forerun.numerics.tree_shape import widths

CUT = widths((2, 2))[:4]
SHAPES = {
    "chain": widths((1, 1, 1)),
    "two at the root": widths((2,)),
    "three at the root": widths((3,)),
    "2x2": widths((2, 2)),
    "ragged": (-1, -1, 0, 0, 1, 2),
    "cut": CUT,
}


class Laws:
    """p and q of every prefix; `zeros` of them here and there."""

    def __init__(self, seed, vocabulary=3, zeros=True):
        self.seed, self.vocabulary, self.zeros, self._known = seed, vocabulary, zeros, {}

    def _law(self, of, prefix):
        if (of, prefix) not in self._known:
            rng = np.random.default_rng([self.seed, of, self.vocabulary, *prefix])
            p = rng.dirichlet(np.full(self.vocabulary, 0.8))
            if self.zeros and rng.random() < 0.3:
                p[rng.integers(self.vocabulary)] = 0
            self._known[of, prefix] = p / p.sum()
        return self._known[of, prefix]

    def p(self, prefix):
        return self._law(1, prefix)

    def q(self, prefix):
        return self._law(2, prefix)


def sampled(q, count, draw):
    return without_replacement(q, count, draw)


def likeliest(q, count, draw):
    order = np.argsort(-q, kind="stable")
    return [(int(token), None) for token in order[:count] if q[token] > 0]


def again(q, count, draw):
    """Independent draws: a token may come twice."""
    return [(draw(q, i), q) for i in range(count)]


KINDS = {
    Drawn.WITHOUT_REPLACEMENT: sampled,
    Drawn.GREEDY_PLUS_ONE: greedy_plus_one,
    Drawn.DETERMINISTIC: likeliest,
    Drawn.SAMPLED: again,
}


def draft(laws, shape, drawn, draws, children=None):
    """A proposal of that shape, its children drawn by that kind's rule."""
    children = KINDS[drawn] if children is None else children
    tokens, parents, q, at = [], [], [], {ROOT: ROOT}
    for place in (ROOT, *range(len(shape))):
        count = shape.count(place)
        if not count or place not in at:
            continue
        node = at[place]
        path = TokenTree(tuple(tokens), tuple(parents)).path_tokens(node) if tokens else ()
        places = [i for i, parent in enumerate(shape) if parent == place]
        first = len(tokens)

        def draw(law, i, first=first):
            return draws.draw(law, (first + i, Purpose.DRAFT))

        for spot, (token, law) in zip(places, children(laws.q(path), count, draw)):
            at[spot] = len(tokens)
            tokens.append(token)
            parents.append(node)
            q.append(law)
    return Proposal(tree=TokenTree(tuple(tokens), tuple(parents)), q=tuple(q), drawn=drawn)


def after(laws, proposal):
    return [laws.p(proposal.tree.path_tokens(n)) for n in (ROOT, *range(len(proposal)))]


def rounds(
    laws, shape, drawn, verifier, change=lambda proposal: proposal, children=None, prepare=None
):
    """(probability, proposal, verdict) of every outcome of a round."""
    tape, more = Tape(), True
    while more:
        tape.rewind()
        draws = EnumeratedDraws(tape)
        draws.begin_round(0, 0)
        if prepare is not None:
            prepare(draws)
        proposal = change(draft(laws, shape, drawn, draws, children))
        verdict = verifier.verify(proposal, after(laws, proposal), draws)
        yield tape.weight, proposal, verdict
        more = tape.advance()


def emitted(laws, shape, drawn, verifier, **changes):
    """Law of the tokens of a round, those that it lacks up to the tree's depth + 1 drawn from p."""
    longest = max(TokenTree((0,) * len(shape), shape).depths) + 1
    found = defaultdict(float)
    for weight, proposal, verdict in rounds(laws, shape, drawn, verifier, **changes):
        path = tuple(proposal.tree.tokens[node] for node in verdict.path)
        found[(*path, verdict.token)] += weight
    law = defaultdict(float)
    for text, weight in found.items():
        for longer, mass in continued(laws, text, longest - len(text)).items():
            law[longer] += weight * mass
    return law, continued(laws, (), longest)


def continued(laws, text, count):
    """Law of `text` with `count` more tokens from p."""
    found = {text: 1.0}
    for _ in range(count):
        found = {
            (*before, token): mass * laws.p(before)[token]
            for before, mass in found.items()
            for token in range(laws.vocabulary)
        }
    return found


def distance(*args, **changes):
    found, plain = emitted(*args, **changes)
    return 0.5 * sum(
        abs(found.get(y, 0.0) - plain.get(y, 0.0)) for y in found.keys() | plain.keys()
    )


def tokens_per_pass(laws, shape, drawn, verifier):
    """Expected tokens of a round, the next one included, by enumeration."""
    return sum(w * (1 + len(v.path)) for w, _, v in rounds(laws, shape, drawn, verifier))
