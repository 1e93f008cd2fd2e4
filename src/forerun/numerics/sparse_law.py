"""A law that gives mass to few of V tokens: their ids in rising order, and their p.

    SparseLaw(ids, p, V)      ids  3  17  90        p  .7  .2  .1        all else 0
    SparseLaw.certain(17, V)  the point mass on 17

What greedy, top-k, top-p and min-p leave is a few tokens of a vocabulary of 50,000 to 250,000; a
law [V] would be written, and read again by every verifier, for its zeros. It reads like an array
where one entry is asked for (`law[token]`), and becomes one where that is needed (`np.asarray`).

What this module does not know: logits, randomness.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ONE = np.ones(1, np.float32)
_ONE.flags.writeable = False


class SparseLaw:
    """`p[n]` of the tokens `ids[n]`, out of `size` tokens. Not to be changed.

    `only` is the token of a law made as certain; its arrays are there when they are asked for.
    """

    __slots__ = ("_ids", "only", "p", "size")

    def __init__(self, ids: NDArray[np.integer], p: NDArray[np.floating], size: int) -> None:
        self._ids: NDArray[np.integer] | None = ids
        self.p, self.size = p, size
        self.only: int | None = None

    @classmethod
    def certain(cls, token: int, size: int) -> SparseLaw:
        law = cls.__new__(cls)
        law._ids, law.only, law.p, law.size = None, token, _ONE, size
        return law

    @property
    def ids(self) -> NDArray[np.integer]:
        if self._ids is None:
            self._ids = np.array([self.only], np.int32)
        return self._ids

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.p.dtype

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token: int) -> float:
        if not 0 <= token < self.size:
            raise IndexError(f"token id {token} is not in 0 to {self.size - 1}")
        if self.only is not None:
            return float(token == self.only)
        at = int(self.ids.searchsorted(token))
        return float(self.p[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    @classmethod
    def among(cls, law: Any, ids: NDArray[np.integer], size: int) -> SparseLaw:
        """A law of numbers 0, 1, …, of which number n is token `ids[n]` of `size`."""
        if not isinstance(law, SparseLaw):
            numbers = np.flatnonzero(law)
            law = cls(numbers, law[numbers], len(law))
        if law.only is not None:
            return cls.certain(int(ids[law.only]), size)
        found, p = ids[law.ids], law.p
        if (found[1:] < found[:-1]).any():
            order = found.argsort()
            found, p = found[order], p[order]
        return cls(found, p, size)

    def at(self, ids: NDArray[np.integer]) -> NDArray[np.floating]:
        """p of each of `ids`."""
        places = np.minimum(self.ids.searchsorted(ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.p[places], self.p.dtype.type(0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = np.zeros(self.size, self.p.dtype if dtype is None else dtype)
        whole[self.ids] = self.p
        return whole
