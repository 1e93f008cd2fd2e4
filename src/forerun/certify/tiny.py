"""Tiny pairs of target and draft whose laws are known, and a fast speculative sampler over them.

A pair is two tables, p and q given the last ids, so that every law, and the joint law of a few
tokens, is exact. Any engine that can hold a table can be run on it (`Pair.target`, `Pair.draft`);
`sample` writes thousands of texts at once by token-level rejection, a table look-up a token, with a
fault where one is asked for. It is what the statistic is calibrated and its power measured with:

    pair = random_pair(vocabulary=8, seed=1)
    texts = sample(pair, 1000, max_tokens=32, rng=rng, rule=rule("lenience 0.95"))
    for block in observed(pair, texts): test.observe_block(block)

What this module does not know: forerun's own verifiers (tests run those on the same pairs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forerun.certify import alternatives as faults
from forerun.certify.observation import RECENT, Array, Block
from forerun.errors import OptionError, UnknownNameError
from forerun.models.tabular import LayeredTabularModel, TabularModel

Ids = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Laws of target and draft given the last `order` ids, the latest as the last digit in base V.

    A prefix shorter than that is filled with id 0 in front.
    """

    p: Array  # [V^order, V]
    q: Array  # [V^order, V]
    order: int
    eos: int | None = None

    @property
    def vocabulary(self) -> int:
        return int(self.p.shape[1])

    def row(self, prefix: Sequence[int]) -> int:
        """Where the laws after `prefix` stand."""
        last = [0] * self.order + [int(i) for i in prefix]
        place = 0
        for i in last[len(last) - self.order :]:
            place = place * self.vocabulary + i
        return place

    def target(self) -> TabularModel:
        """Without some of its four layers it is the draft."""
        return LayeredTabularModel(
            lambda prefix: self.p[self.row(prefix)],
            lambda prefix, skipped: self.q[self.row(prefix)],
            4,
            self.vocabulary,
            self.eos,
            name="tiny target",
        )

    def draft(self) -> TabularModel:
        return TabularModel(
            lambda prefix: self.q[self.row(prefix)], self.vocabulary, self.eos, name="tiny draft"
        )


def random_pair(
    *,
    vocabulary: int = 8,
    seed: int = 0,
    order: int = 1,
    closeness: float = 0.5,
    cut: float = 0.0,
    eos: int | None = None,
) -> Pair:
    """Laws from random weights: logits are normal, the draft's share `closeness` with the target's.

    What the target gives less than `cut` times its largest probability, it never writes.
    OptionError for sizes that make no table.
    """
    if not 2 <= vocabulary <= 1024 or not 1 <= order <= 3 or vocabulary**order > 1 << 16:
        raise OptionError(
            f"a table over vocabulary {vocabulary} and order {order} is none of these: 2 to 1024 "
            "ids, 1 to 3 of them looked at, at most 65,536 rows"
        )
    rng = np.random.default_rng([seed, vocabulary, order])
    shape = (vocabulary**order, vocabulary)
    own, other = 1.2 * rng.standard_normal(shape), 1.2 * rng.standard_normal(shape)
    mixed = closeness * own + np.sqrt(1 - closeness**2) * other
    p = _softmax(own)
    p = np.where(p >= cut * p.max(axis=1, keepdims=True), p, 0.0)
    return Pair(p=p / p.sum(axis=1, keepdims=True), q=_softmax(mixed), order=order, eos=eos)


def rounding_pair() -> Pair:
    """A pair on which bfloat16 rounds as badly as it can: 0.39% of each probability of the draft.

    Four ids, the law always the same; q just below a half and just above a quarter's midpoint, p on
    either side of it, so that acceptance depends on q wherever it can.
    """
    high, low = 0.25 * (1 + 3 * 2.0**-8 - 2.0**-20), 0.25 * (1 - 3 * 2.0**-9 + 2.0**-20)
    q = np.array([high, low, high, 0.0])
    q[3] = 1 - q.sum()
    p = np.array([0.9 * q[0], 0.9 * q[1], 0.9 * q[2], 0.0])
    p[3] = 1 - p.sum()
    return Pair(p=np.tile(p, (4, 1)), q=np.tile(q, (4, 1)), order=1)


def _softmax(logits: Array) -> Array:
    w = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: Array = w / w.sum(axis=1, keepdims=True)
    return found


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a drafted position is decided; each of laws p and q [N, V] -> [N, V]."""

    accept: Callable[[Array, Array], Array] = faults.acceptance
    correct: Callable[[Array, Array], Array] = faults.residual
    drawn: Callable[[Array, Array], Array] = lambda p, q: q  # what drafts are really drawn from
    bonus: Callable[[Array, Array], Array] = lambda p, q: p


def _scored(law: Callable[[Array], Array]) -> Rule:
    """Drafts from q, judged by another law in its place."""
    return Rule(
        accept=lambda p, q: faults.acceptance(p, law(q)),
        correct=lambda p, q: faults.residual(p, law(q)),
    )


RULES: dict[str, Rule] = {
    "lossless": Rule(),
    "lenience 0.95": Rule(accept=lambda p, q: faults.acceptance(p, 0.95 * q)),
    "lenience 0.8": Rule(accept=lambda p, q: faults.acceptance(p, 0.8 * q)),
    "resample from p": Rule(correct=lambda p, q: p),
    "bonus from the draft": Rule(bonus=lambda p, q: q),
    "argmax draft scored as sampled": Rule(drawn=faults.favourite),
    "acceptance × 0.8": Rule(accept=lambda p, q: 0.8 * faults.acceptance(p, q)),
    "acceptance by threshold": Rule(accept=lambda p, q: (p > 0.3).astype(np.float64)),
    "coin that accepts p = 0": Rule(
        accept=lambda p, q: np.maximum(faults.acceptance(p, q), faults.FLOOR)
    ),
    "q of another temperature": _scored(faults.sharper),
    "q rounded to bf16": _scored(faults.bfloat16),
}
"""Faults by name, and none."""


def rule(name: str) -> Rule:
    """One of RULES; UnknownNameError for others."""
    if name not in RULES:
        raise UnknownNameError.of("rule", name, RULES)
    return RULES[name]


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """S texts of up to T tokens after the prompt, which is `start` ids."""

    prompt: tuple[int, ...]
    tokens: Ids  # [S, T]; −1 behind a text's end
    depth: Ids  # [S, T] tokens of the round before each
    drafted: NDArray[np.bool_]  # [S, T] whether a draft was judged there
    lengths: Ids  # [S]

    def __len__(self) -> int:
        return len(self.tokens)

    def first(self, count: int) -> Texts:
        """The texts of the first requests."""
        return self.chosen(np.arange(min(count, len(self))))

    def chosen(self, which: Ids) -> Texts:
        return Texts(
            prompt=self.prompt,
            tokens=self.tokens[which],
            depth=self.depth[which],
            drafted=self.drafted[which],
            lengths=self.lengths[which],
        )


def sample(
    pair: Pair,
    count: int,
    *,
    max_tokens: int,
    rng: np.random.Generator,
    rule: Rule = RULES["lossless"],
    num_draft: int = 4,
    prompt: Sequence[int] = (0,),
) -> Texts:
    """`count` texts by speculative sampling, γ = `num_draft`; 0 is plain sampling.

    One step writes one token of every text: at depth < γ a draft is judged and stays or is
    corrected, which ends the round; at depth γ comes the bonus. Whether more was drafted behind a
    rejected token does not matter to what is written.
    """
    accept = rule.accept(pair.p, pair.q)
    drawn = _steps(rule.drawn(pair.p, pair.q))
    corrected, bonus = _steps(rule.correct(pair.p, pair.q)), _steps(rule.bonus(pair.p, pair.q))
    row = np.full(count, pair.row(prompt))
    depth = np.zeros(count, dtype=np.int64)
    going = np.ones(count, dtype=bool)
    tokens = np.full((count, max_tokens), -1, dtype=np.int64)
    depths = np.zeros((count, max_tokens), dtype=np.int64)
    for t in range(max_tokens):
        last = depth >= num_draft
        x = _draw(drawn, row, rng)
        kept = (rng.random(count) < accept[row, x]) & ~last
        x = np.where(kept, x, _draw(corrected, row, rng))
        x = np.where(last, _draw(bonus, row, rng), x)
        tokens[going, t], depths[:, t] = x[going], depth
        if pair.eos is not None:
            going &= x != pair.eos
        depth = np.where(kept, depth + 1, 0)
        row = (row * pair.vocabulary + x) % len(pair.p)
    return Texts(
        prompt=tuple(prompt),
        tokens=tokens,
        depth=depths,
        drafted=depths < num_draft,
        lengths=(tokens >= 0).sum(axis=1),
    )


def _steps(law: Array) -> Array:
    found: Array = np.cumsum(law, axis=1)
    return found


def _draw(steps: Array, row: Ids, rng: np.random.Generator) -> Ids:
    own = steps[row]
    u = rng.random(len(row)) * own[:, -1]  # below the sum, so that no token of mass 0 is drawn
    found: Ids = (u[:, None] >= own[:, :-1]).sum(axis=1)
    return found


def observed(pair: Pair, texts: Texts, *, first: int = 0, at_once: int = 512) -> Iterator[Block]:
    """The texts as blocks for the law's test, in order; their numbers begin at `first`."""
    for start in range(0, len(texts), at_once):
        some = texts.chosen(np.arange(start, min(start + at_once, len(texts))))
        where, position = np.nonzero(some.tokens >= 0)
        padded = np.concatenate(
            [
                np.full((len(some), RECENT), -1),
                np.tile(np.array(some.prompt, dtype=np.int64), (len(some), 1)),
                some.tokens,
            ],
            axis=1,
        )
        at = position + RECENT + len(some.prompt)
        recent = np.stack([padded[where, at - 1 - age] for age in range(RECENT)], axis=1)
        row = np.zeros(len(where), dtype=np.int64)
        for age in reversed(range(pair.order)):
            row = row * pair.vocabulary + np.maximum(recent[:, age], 0)
        q = np.where(some.drafted[where, position][:, None], pair.q[row], np.nan)
        beginning = np.where(position < 2, position * len(pair.p) + row, -1)
        yield Block(
            sequence=first + start + where,
            position=position,
            token=some.tokens[where, position],
            p=pair.p[row],
            q=q,
            recent=recent,
            classes={
                "context": row,
                "beginning": beginning,
                "depth": some.depth[where, position],
            },
        )


def finished(lengths: Ids, *, slots: int, deadline: int) -> NDArray[np.bool_]:
    """Which requests are done at a deadline, where `slots` of them run at a time, a token a tick.

    The next request in submission order begins as soon as a slot is free.
    """
    free = np.zeros(slots, dtype=np.int64)
    done = np.zeros(len(lengths), dtype=bool)
    for i, length in enumerate(lengths):
        slot = int(free.argmin())
        free[slot] += length
        done[i] = free[slot] <= deadline
    return done


def drained(done: NDArray[np.bool_]) -> int:
    """How many requests count: all before the first that is not done."""
    return len(done) if done.all() else int(np.argmin(done))
