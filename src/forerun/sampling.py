"""Sampling parameters: what a request asks of the target's law, checked once.

Nothing below the engine checks these again. The order in which they act on logits is fixed in
`numerics/distribution.py`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from forerun.errors import OptionError

Processor = Callable[[Sequence[int], Any], Any]
"""A user's pure function (ids before this position, logits[V]) -> logits[V]. `ids` are prompt,
output and the drafted tokens before this position; the logits it gets may be overwritten."""


class SamplingOptions(TypedDict, total=False):
    """The sampling keywords of `generate`, `stream` and `generate_batch`, for type checkers."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    banned: Sequence[int]
    min_tokens: int
    max_tokens: int
    stop: str | Sequence[str]
    stop_ids: Sequence[int]
    seed: int | None
    processors: Sequence[Processor]


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """One request's sampling parameters. Raises OptionError for values that make no sense."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off; relative to the largest probability
    repetition_penalty: float = 1.0  # prompt and output; l > 0 ? l / r : l * r
    presence_penalty: float = 0.0  # output only, once per id
    frequency_penalty: float = 0.0  # output only, times the count
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    banned: frozenset[int] = frozenset()  # ids that are never emitted
    min_tokens: int = 0  # the text cannot end before so many tokens
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    seed: int | None = None  # None: a fresh 128-bit seed at admission
    processors: tuple[Processor, ...] = ()
    eos: frozenset[int] = frozenset()  # set by the engine: the model's end tokens

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.min_tokens > self.max_tokens:
            raise OptionError(
                f"min_tokens ({self.min_tokens}) must be at most max_tokens ({self.max_tokens})"
            )

    @property
    def end_ids(self) -> frozenset[int]:
        """All ids that end the text: the model's end tokens and the request's own."""
        return self.eos | self.stop_ids

    @cached_property
    def biases(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """`logit_bias` as ids [n] and numbers [n], made once: laws ask at every position."""
        ids = np.fromiter(self.logit_bias.keys(), np.int64, len(self.logit_bias))
        return ids, np.fromiter(self.logit_bias.values(), np.float64, len(self.logit_bias))

    @property
    def uses_history(self) -> bool:
        """Whether the law depends on the ids themselves, beyond what the model makes of them."""
        penalised = self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty
        return bool(penalised or self.processors)

    def replace(self, **changes: Any) -> SamplingParams:
        """A copy with some fields changed, checked again."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SamplingParams:
        """From keywords; an unknown one is a TypeError that names it and the nearest known."""
        known = SamplingOptions.__annotations__
        for name in options:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"unknown sampling keyword {name!r}{hint}")
        return cls(**options)


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _real(low: float, high: float, why: str) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not real or not low <= value <= high:  # false for NaN
            raise OptionError(f"{name} must be {why}, not {value!r}")
        return float(value)  # a NumPy scalar would widen float32 laws

    return check


def _whole(low: int, high: float, why: str) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if not is_whole(value) or not low <= value <= high:
            raise OptionError(f"{name} must be {why}, not {value!r}")
        return int(value)

    return check


def _list(name: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, Iterable):
        raise OptionError(f"{name} takes a list, not {values!r}")
    return tuple(values)


def _id(name: str, value: Any) -> int:
    if not is_whole(value) or value < 0:
        raise OptionError(f"{name} takes token ids, whole numbers from 0 up, not {value!r}")
    return int(value)


def _ids(name: str, values: Any) -> frozenset[int]:
    return frozenset(_id(name, value) for value in _list(name, values))


def _temperature(name: str, value: Any) -> float:
    why = "0 (greedy) or from 1e-6 to 1e6 (1.0 leaves the law as it is)"
    temperature = _real(0, LARGEST, why)(name, value)
    if 0 < temperature < SMALLEST:
        raise OptionError(f"{name} must be {why}, not {value!r}")
    return temperature


def _top_p(name: str, value: Any) -> float:
    return _real(math.ulp(0.0), 1, "above 0 and at most 1 (1 is off)")(name, value)


def _bias(name: str, value: Any) -> dict[int, float]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{name} takes id -> number, not {value!r}")
    why = "a number from -1e6 to 1e6 (to forbid an id, use banned)"
    return {
        _id(name, i): _real(-LARGEST, LARGEST, why)(f"{name}[{i}]", bias)
        for i, bias in value.items()
    }


def _stop(name: str, value: Any) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else _list(name, value)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise OptionError(f"{name} takes non-empty strings, not {text!r}; for ids use stop_ids")
    return texts


def _seed(name: str, value: Any) -> int | None:
    why = "None (a fresh one) or a whole number from 0 below 2**128"
    return None if value is None else _whole(0, 2**128 - 1, why)(name, value)


def _processors(name: str, value: Any) -> tuple[Processor, ...]:
    for processor in _list(name, value):
        if not callable(processor):
            raise OptionError(
                f"{name} must be functions (ids, logits) -> logits, not {processor!r}"
            )
    return _list(name, value)


SMALLEST, LARGEST = 1e-6, 1e6  # what float32 logits bear without overflow

_PENALTY = _real(-LARGEST, LARGEST, "a number from -1e6 to 1e6 (0 is off)")

_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "temperature": _temperature,
    "top_k": _whole(0, math.inf, "a whole number of at least 0 (0 is off)"),
    "top_p": _top_p,
    "min_p": _real(0, 1, "between 0 (off) and 1"),
    "repetition_penalty": _real(SMALLEST, LARGEST, "from 1e-6 to 1e6 (1 is off)"),
    "presence_penalty": _PENALTY,
    "frequency_penalty": _PENALTY,
    "logit_bias": _bias,
    "banned": _ids,
    "min_tokens": _whole(0, math.inf, "a whole number of at least 0 (0 is off)"),
    "max_tokens": _whole(0, math.inf, "a whole number of at least 1"),  # 0: see engine/request.py
    "stop": _stop,
    "stop_ids": _ids,
    "seed": _seed,
    "processors": _processors,
    "eos": _ids,
}
