"""All randomness is an argument: `Draws`, and the keyed source used in production.

A request's noise is a counter function of its seed and of *what the noise is for*, so it does not
depend on the batch, on other requests, or on the order in which things are asked. With
Philox4x64-10 (Salmon et al. 2011) nothing is hashed:

    key      (2 × 64 bit)    the seed
    counter  (4 × 64 bit)    block of ids │ node, purpose │ round or position │ completion, epoch

`accept` and `draw` are keyed by (round, node, purpose) and a key is used once: noise that was
looked at in one round is not fresh in the next. `race` is keyed by the absolute position alone, by
design: the token that wins is a function of that noise and of p only (argmin over x of E_x / p(x),
with exponentials E), so target and drafter can share it and the text does not depend on the rounds.

Uniforms have 53 random bits and lie strictly inside (0, 1): u = (k + ½)·2⁻⁵³, the topmost, which
float64 would round to 1, being 1 − 2⁻⁵³. Exponentials are −log1p(−u), in float64.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from forerun.errors import KeyReuseError
from forerun.numerics import fused
from forerun.numerics.sparse_law import SparseLaw

Float64Array = NDArray[np.float64]


class Purpose(IntEnum):
    """What a piece of noise is for; one purpose never shares noise with another."""

    DRAFT = 1  # a drafter draws a token
    ACCEPT = 2  # the coin of a drafted token
    NEXT = 3  # the token after the accepted ones: residual or bonus
    RACE = 4  # exponentials by absolute position


Key = tuple[int, Purpose]
"""(node, purpose) within the current round; −1 is the root."""


class Draws(Protocol):
    """The source of one request's randomness; `begin_round` comes before the draws of a round."""

    def begin_round(self, index: int, position: int) -> None:
        """Start round `index` (they only rise); its first new token stands at `position`."""
        ...

    def accept(self, probability: float, key: Key) -> bool:
        """True with `probability`; never at 0, always at 1. KeyReuseError if the key was used."""
        ...

    def draw(self, law: Any, key: Key) -> int:
        """A token from `law` [V]. KeyReuseError if the key was used."""
        ...

    def race(self, law: Any, path: tuple[int, ...], purpose: Purpose) -> int:
        """A token from `law` [V] by the exponentials of the position after drafted tokens `path`.

        `purpose` says who races: DRAFT for a drafter's guess, NEXT for the target's own token.
        """
        ...

    def coin(self, key: Key) -> float | None:
        """The uniform behind this round's `accept` of `key`, for traces; None if there was none."""
        ...


Sampler = Callable[[Any, int, tuple[int, ...]], int]
"""(q[V], node, drafted tokens before it) -> token: how a drafter draws; the engine chooses."""


def fresh_sampler(draws: Draws) -> Sampler:
    """Independent draws from q, for verifiers whose proof needs them."""
    return lambda q, node, path: draws.draw(q, (node, Purpose.DRAFT))


def racing_sampler(draws: Draws) -> Sampler:
    """Draws that share the target's exponentials, for `coupled`."""
    return lambda q, node, path: draws.race(q, path, Purpose.DRAFT)


def fresh_seed() -> int:
    """128 bits from the operating system, for a request that names no seed."""
    return secrets.randbits(128)


class KeyedDraws:
    """Counter-based noise of one (seed, completion, epoch). See the module's docstring.

    `seed` is below 2**128, `completion` and `epoch` below 2**32: completion counts the choices of
    one request, and the epoch is raised by a retry that lost its round counter.
    """

    def __init__(self, seed: int, completion: int = 0, epoch: int = 0) -> None:
        if not 0 <= seed < 2**128:
            raise ValueError(f"a seed lies between 0 and 2**128 − 1, not {seed}")
        if not 0 <= completion < 2**32 or not 0 <= epoch < 2**32:
            raise ValueError(f"completion {completion} and epoch {epoch} must be below 2**32")
        self.seed, self.completion, self.epoch = seed, completion, epoch
        self._round = -1
        self._position = 0
        self._coins: dict[Key, float] = {}

    def begin_round(self, index: int, position: int) -> None:
        if index <= self._round:
            raise KeyReuseError(f"round {index} after round {self._round}: its keys may be spent")
        self._round, self._position = index, position
        self._coins.clear()

    def accept(self, probability: float, key: Key) -> bool:
        return self._uniform(key) < probability

    def draw(self, law: Any, key: Key) -> int:
        return inverse_cdf(law, self._uniform(key))

    def race(self, law: Any, path: tuple[int, ...], purpose: Purpose) -> int:
        position = self._position + len(path)
        sparse = isinstance(law, SparseLaw)
        if sparse and law.only is not None:
            return int(law.only)
        p = law.p if sparse else host(law)
        ids = law.ids if sparse else None
        if ids is not None and len(ids) == 1:
            return int(ids[0])
        if fused.serves(p):
            return fused.race(self._noise(position, 0, Purpose.RACE, 0), ids, p)
        if ids is None:
            ids = np.flatnonzero(p)
            p = p[ids]
        noise = self.exponentials(position, int(ids[-1]) + 1)
        return int(ids[np.argmin(noise[ids] / p)])

    def coin(self, key: Key) -> float | None:
        return self._coins.get(key)

    def exponentials(self, position: int, count: int) -> Float64Array:
        """E[count] of the token ids below `count` at an absolute position in prompt + output."""
        u = uniforms(self._bits(position, 0, Purpose.RACE, 0, count))
        return np.asarray(-np.log1p(-u))

    def _uniform(self, key: Key) -> float:
        node, purpose = key
        if self._round < 0:
            raise KeyReuseError("a draw outside a round: call begin_round first")
        if key in self._coins:
            raise KeyReuseError(
                f"{purpose.name} of node {node} was drawn before in round {self._round}"
            )
        of = (self._round, node + 1, purpose, self.epoch)
        u = fused.uniform(self._noise(*of), 0)
        if u is None:
            u = float(uniforms(self._bits(*of, 1))[0])
        self._coins[key] = u
        return u

    def _bits(
        self, index: int, node: int, purpose: Purpose, epoch: int, count: int
    ) -> NDArray[np.uint64]:
        words = self._noise(index, node, purpose, epoch)
        key = np.array(words[:2], dtype=np.uint64)
        counter = np.array([0, *words[2:]], dtype=np.uint64)
        # token id x is word x % 4 of the block after counter + x // 4 (NumPy steps, then reads)
        raw: NDArray[np.uint64] = np.random.Philox(key=key, counter=counter).random_raw(count)
        return raw

    def _noise(self, index: int, node: int, purpose: Purpose, epoch: int) -> fused.Noise:
        """Philox's key, and the upper three words of its counter."""
        key = (self.seed & (2**64 - 1), self.seed >> 64)
        return (*key, node << 8 | purpose, index, self.completion << 32 | epoch)


def uniforms(bits: NDArray[np.uint64]) -> Float64Array:
    """64-bit words -> (k + ½)·2⁻⁵³ from their upper 53 bits, strictly inside (0, 1)."""
    k = (bits >> np.uint64(11)).astype(np.float64)
    return np.minimum((k + 0.5) * 2.0**-53, 1 - 2.0**-53)


def inverse_cdf(law: Any, u: float) -> int:
    """The first token at which the summed law exceeds u times its total; never one of p = 0.

    Sums in float64, blocks first: a running sum over the vocabulary would cost ten times as much.
    """
    if isinstance(law, SparseLaw):
        sums = law.p.cumsum(dtype=np.float64)
        above = int(sums.searchsorted(u * sums[-1], side="right"))
        return int(law.ids[min(above, len(sums) - 1)])
    p = host(law)
    blocks = np.cumsum(np.add.reduceat(p, np.arange(0, len(p), _BLOCK), dtype=np.float64))
    goal = u * blocks[-1]
    block = min(int(np.searchsorted(blocks, goal, side="right")), len(blocks) - 1)
    start = block * _BLOCK
    support = start + np.flatnonzero(p[start : start + _BLOCK])
    if not len(support):  # u times the total rounded up to the total: the last token of all
        return int(np.flatnonzero(p)[-1])
    below = blocks[block - 1] if block else 0.0
    sums = below + np.cumsum(p[support], dtype=np.float64)
    return int(support[min(int(np.searchsorted(sums, goal, side="right")), len(support) - 1)])


_BLOCK = 1024


def host(law: Any) -> Any:
    """The law as a NumPy array, without a copy where it lives in host memory."""
    return np.asarray(law.cpu() if hasattr(law, "cpu") else law)
