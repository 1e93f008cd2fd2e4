"""Floats as blocks of 8-bit codes, for what is not in a GGUF file: see `dequantise.py`.

What this module does not know: files, and what the values are for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 32


def q8_0(values: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bytes of Q8_0: of each 32 values a float16 scale, then codes from −127 to 127.

    The size must be a multiple of 32. A block whose scale would be no float16 is an OverflowError.
    """
    blocks = np.ascontiguousarray(values, dtype=np.float32).reshape(-1, BLOCK)
    with np.errstate(over="ignore"):
        scales = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    if not np.isfinite(scales).all():
        raise OverflowError("values too large for blocks of 8-bit codes")
    by = np.where(scales > 0, scales, np.float16(1)).astype(np.float32)
    codes = np.clip(np.rint(blocks / by), -127, 127).astype(np.int8)
    return np.hstack([scales.view(np.uint8).reshape(-1, 2), codes.view(np.uint8)]).reshape(-1)
