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
from typing import Any


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
