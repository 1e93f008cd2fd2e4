"""The law's test: takes tokens in submission order, and gives a verdict at any time.

    test = LawTest(level=1e-6)
    test.observe(observation)        # as often as there are tokens
    test.verdict().sentence          # whenever one likes

One e-process against losslessness: the average, with weights fixed here, of histograms of u (in
every order of tokens, by every class of context) and of bets along every named fault. It passes
1/level with a chance of at most `level` if every token follows p given all before it. A token with
p = 0 is a failure by itself. Where log p is known up to rounding only, within ρ_t, a bet that is
fair under p gains at most e^ρ_t by that, so that the e-value is divided by e^Σρ_t. Beside it stand,
for each named fault, the e-process against *it* (`alternatives.py`), and a band (`band.py`).

Stopping. The tokens must be a beginning of the fixed sequence (request 0's tokens, request 1's, …):
then whatever ends them, a deadline too, is one more way to stop. To leave out a request because it
was slow, long or failed is not, so numbers that skip raise an error.

What this module does not know: where tokens and laws come from.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from forerun.certify import alternatives
from forerun.certify.band import Band
from forerun.certify.bets import ZETA, FaultSums, Histograms, log_mean, log_mix
from forerun.certify.law_verdict import BetVerdict, LawVerdict, ZeroToken
from forerun.certify.observation import Array, Block, Keys, Observation, blocks
from forerun.certify.transform import ORDERS, coarse, normalised, transform
from forerun.errors import OptionError

PARTITIONS = ("all", "sharpness", "context", "beginning", "prompt", "depth", "setting")
"""By what bets on u may differ. "all" has one class."""

SHARPNESS = np.array([0.2, 0.5, 0.8, 0.95, 0.99])  # of the largest p: bounds of its classes

ENTRIES = 1 << 20  # numbers in a law's array at once
ROWS = 4096  # tokens at once
ZEROS = 20  # tokens with p = 0 that are kept


class LawTest:
    """Whether tokens follow their laws.

    level   largest chance of a false alarm, in (0, 1); also of each wrong exclusion
    claim   mean TV of interest: what exclusions in the verdict's sentence speak of
    seed    of the test's own randomness, which has nothing to do with the engine's
    """

    def __init__(self, *, level: float = 1e-6, claim: float = 0.01, seed: int = 0) -> None:
        for name, value in (("level", level), ("claim", claim)):
            if not 0 < value < 1:
                raise OptionError(f"{name} must lie between 0 and 1, not {value!r}")
        self.level, self.claim = level, claim
        self.sequences = 0
        self._taken = 0  # tokens that bets were made on
        self.history: list[tuple[int, float]] = []
        """(tokens, natural log of the e-value) at each look."""
        self._noise = np.random.default_rng([seed, 0x7E57])
        self._waiting: list[Observation] = []
        self._last: tuple[int, int] | None = None  # sequence and position of the last token
        self._histograms = {name: Histograms(PARTITIONS) for name in ORDERS}
        self._bands = {name: Band() for name in ORDERS}
        self._faults = {
            name: FaultSums.of(claim)
            for name in (*alternatives.FAULTS, *alternatives.TARGET_FAULTS, alternatives.COPIES)
        }
        self._others: dict[str, FaultSums] = {}
        self._zeros: list[ZeroToken] = []
        self._zero_count = 0
        self._peak = -math.inf
        self._given = 0.0  # taken off log e-values, for the rounding of p

    def observe(self, observation: Observation) -> None:
        """Take one more token. OptionError where it does not follow the one before."""
        self._follow(observation.sequence, observation.position)
        self._waiting.append(observation)
        self._given += observation.rounding
        size = len(observation.p)
        if len(self._waiting) >= min(self._until_look(), ROWS, max(ENTRIES // size, 1)):
            self._flush()

    def observe_block(self, block: Block) -> None:
        """Take many tokens at once; looks come between blocks, not within."""
        self._flush()
        breaks = (np.diff(block.sequence) != 0) | (np.diff(block.position) != 1)
        for i in [0, *(np.flatnonzero(breaks) + 1)] if len(block) else []:
            self._follow(int(block.sequence[i]), int(block.position[i]))
            end = np.flatnonzero(breaks[i:])
            last = i + int(end[0]) if len(end) else len(block) - 1
            self._last = (int(block.sequence[last]), int(block.position[last]))
        start = 0
        while start < len(block):
            stop = start + min(ROWS, max(ENTRIES // block.p.shape[1], 1))
            self._take(_part(block, slice(start, stop)))
            start = stop

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self._taken + len(self._waiting)

    @property
    def fault(self) -> bool:
        """Whether a fault was found, at the looks so far."""
        return self._zero_count > 0 or self._peak >= -math.log(self.level)

    def verdict(self) -> LawVerdict:
        self._flush()
        if self.tokens and (not self.history or self.history[-1][0] != self.tokens):
            self._look()
        bets = self._bets()
        known = [item for item in [*self._faults.items(), *self._others.items()] if item[1].tv > 0]
        found = [
            alternatives.judged(name, sums, self.level, self.claim, self._given)
            for name, sums in known
        ]
        loose = self._given / max(self.tokens, 1)
        return LawVerdict(
            level=self.level,
            tokens=self.tokens,
            sequences=self.sequences,
            log_e=self._log_e(),
            peak_log_e=max(self._peak, 0.0),
            given=self._given,
            zeros=tuple(self._zeros),
            zero_count=self._zero_count,
            bets=tuple(sorted(bets, key=lambda bet: -bet.log_e)),
            alternatives=tuple(found),
            band={
                n: min(b.bound(self.level) + loose, 1.0) for n, b in self._bands.items() if b.tokens
            },
        )

    def counts(self, order: str, partition: str = "all") -> dict[Hashable, NDArray[np.int64]]:
        """Tokens in each bin of u (`bets.EDGES`), by class, for pictures."""
        self._flush()
        return self._histograms[order].counts(partition)

    def _follow(self, sequence: int, position: int) -> None:
        last = self._last
        starts = position == 0 and sequence == (0 if last is None else last[0] + 1)
        goes_on = last is not None and (sequence, position) == (last[0], last[1] + 1)
        if not (starts or goes_on):
            before = "nothing" if last is None else f"position {last[1]} of sequence {last[0]}"
            raise OptionError(
                "tokens enter in submission order, none left out: position "
                f"{position} of sequence {sequence} came after {before}"
            )
        self._last = (sequence, position)
        self.sequences += starts

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for block in blocks(waiting):
            self._take(block)

    def _take(self, block: Block) -> None:
        block = self._without_zeros(normalised(block))
        if not len(block):
            return
        sharpness = np.digitize(block.p.max(axis=1), SHARPNESS)
        block = coarse(block)
        classes = {**block.classes, "sharpness": sharpness}
        v = self._noise.random(len(block))
        for name, score in ORDERS.items():
            u = transform(block, score(block), v)
            self._histograms[name].observe(u, classes)
            self._bands[name].observe(u)
        self._judge(block)
        self._taken += len(block)
        if self._until_look() <= 0:
            self._look()

    def _without_zeros(self, block: Block) -> Block:
        bad = block.p[np.arange(len(block)), block.token] <= 0
        if not bad.any():
            return block
        self._zero_count += int(bad.sum())
        self._taken += int(bad.sum())
        for i in np.flatnonzero(bad)[: ZEROS - len(self._zeros)]:
            self._zeros.append(
                ZeroToken(
                    sequence=int(block.sequence[i]),
                    position=int(block.position[i]),
                    token=int(block.token[i]),
                )
            )
        return _part(block, ~bad)

    def _judge(self, block: Block) -> None:
        for name, of_target in alternatives.TARGET_FAULTS.items():
            self._faults[name].observe(block.p, of_target(block.p), block.token)
        if block.q is not None and (drafted := ~np.isnan(block.q[:, 0])).any():
            p, q, token = block.p[drafted], block.q[drafted], block.token[drafted]
            for name, fault in alternatives.FAULTS.items():
                self._faults[name].observe(p, fault(p, q), token)
        if block.copied is not None and (found := block.copied >= 0).any():
            copy = alternatives.one_hot(block.copied[found], block.p.shape[1])
            self._faults[alternatives.COPIES].observe(block.p[found], copy, block.token[found])
        for name, r in block.others.items():
            told = ~np.isnan(r[:, 0])
            sums = self._others.setdefault(name, FaultSums.of(self.claim))
            sums.observe(block.p[told], r[told], block.token[told])

    def _until_look(self) -> int:
        """Tokens until the next look: after 64, then whenever there are a tenth more."""
        last = self.history[-1][0] if self.history else 0
        return last + max(64, last // 10) - self._taken

    def _look(self) -> None:
        log_e = self._log_e()
        self._peak = max(self._peak, log_e)
        self.history.append((self._taken, log_e))

    def _log_e(self) -> float:
        wealth = [each.log_wealth() for each in self._histograms.values()]
        on_u = log_mean([log for by in wealth for log in by.values()])
        fixed = log_mean([sums.log_wealth() for sums in self._faults.values()])
        told = [0.0, *(sums.log_wealth() for sums in self._others.values())]
        weights = np.arange(1, len(told)) ** -1.1 / ZETA
        spare = max(1 - float(weights.sum()), 0.0)  # for faults that may be named later
        whole = log_mix([on_u, fixed, log_mix(told, [spare, *weights])], [0.5, 0.25, 0.25])
        return whole - self._given

    def _bets(self) -> list[BetVerdict]:
        found = [
            BetVerdict(name=f"u by {order}" + ("" if by == "all" else f", per {by}"), log_e=log)
            for order, each in self._histograms.items()
            for by, log in each.log_wealth().items()
        ]
        named = {**self._faults, **self._others}
        return found + [
            BetVerdict(name=name, log_e=sums.log_wealth())
            for name, sums in named.items()
            if sums.tokens
        ]


def _part(block: Block, which: slice | NDArray[np.bool_]) -> Block:
    def of(keys: Keys) -> Keys:
        if isinstance(keys, np.ndarray):
            return keys[which]
        if isinstance(which, slice):
            return keys[which]
        return [key for key, kept in zip(keys, which) if kept]

    def rows(law: Array) -> Array:
        return law[which]

    return replace(
        block,
        sequence=block.sequence[which],
        position=block.position[which],
        token=block.token[which],
        p=rows(block.p),
        recent=block.recent[which],
        q=None if block.q is None else rows(block.q),
        copied=None if block.copied is None else block.copied[which],
        classes={name: of(keys) for name, keys in block.classes.items()},
        others={name: rows(law) for name, law in block.others.items()},
    )
