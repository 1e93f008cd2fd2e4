"""How fast memory can be read: a plain sum over an array that no cache can hold.

bytes ÷ bandwidth is the least time of a pass that must read so many bytes of weights. NumPy sums in
vector registers without Python's lock, so each thread reads its own part at full speed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np

BYTES = 1 << 30
_PIECE = 1 << 21  # bytes summed by one call


def read_bandwidth(threads: int, *, size: int = BYTES, repeats: int = 5) -> list[float]:
    """Bytes per second of `repeats` reads of `size` bytes by `threads` threads at once."""
    numbers = np.ones(size // 8, dtype=np.int64)
    parts = np.array_split(numbers, threads)

    def read(part: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
        step = _PIECE // 8
        return sum(int(np.max(part[i : i + step])) for i in range(0, len(part), step))

    rates = []
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, parts))  # threads start, pages are there
        for _ in range(repeats):
            start = perf_counter()
            list(pool.map(read, parts))
            rates.append(size / (perf_counter() - start))
    return rates
