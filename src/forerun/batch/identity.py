"""What an output was made from, as a name that each of its records bears.

    <16 hexadecimal digits of the input>_<16 of what decides the answers>

The second part stands for the model (of a GGUF file, by samples of its bytes), the drafting, the
seed and the like: not for threads, memory or how many lines run at once, which change no answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES, SAMPLE = 64, 1 << 16  # pieces of a file that are read, and bytes of each


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Of a run; `input` and `options` are 16 hexadecimal digits each."""

    input: str
    options: str

    @classmethod
    def of(cls, digest: str, options: Mapping[str, Any]) -> Identity:
        """`digest` of the input; `options` that decide the answers, as JSON can hold them."""
        text = json.dumps(options, sort_keys=True)
        return cls(input=digest[:16], options=hashlib.sha256(text.encode()).hexdigest()[:16])

    def __str__(self) -> str:
        return f"{self.input}_{self.options}"


def sampled(path: Path) -> str:
    """A digest of a file's size and of pieces all over it: quick, and another for other weights."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for i in range(SAMPLES):
            file.seek(max(size - SAMPLE, 0) * i // (SAMPLES - 1))
            digest.update(file.read(SAMPLE))
    return digest.hexdigest()
