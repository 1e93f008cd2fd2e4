"""Sampling parameters: what a request asks of the target's law, checked once.

Nothing below the engine checks these again. The order in which they act on logits is fixed in
`numerics/distribution.py`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

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
        set_ = object.__setattr__
        stop: Any = self.stop
        set_(self, "stop", (stop,) if isinstance(stop, str) else tuple(stop))
        set_(self, "processors", tuple(self.processors))
        set_(self, "logit_bias", {_id("logit_bias", k): v for k, v in self.logit_bias.items()})
        for name in ("banned", "stop_ids", "eos"):
            set_(self, name, frozenset(_id(name, i) for i in getattr(self, name)))
        _check(self)

    @property
    def end_ids(self) -> frozenset[int]:
        """All ids that end the text: the model's end tokens and the request's own."""
        return self.eos | self.stop_ids

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


def _id(name: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise OptionError(f"{name} takes token ids (whole numbers), not {value!r}")
    if value.__index__() < 0:
        raise OptionError(f"{name} takes token ids from 0 up, not {value!r}")
    return int(value)


def _number(params: SamplingParams, name: str) -> float:
    value = getattr(params, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise OptionError(f"{name} must be a finite number, not {value!r}")
    return value


def _whole(params: SamplingParams, name: str, least: int, why: str) -> None:
    value = getattr(params, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(
            f"{name} must be a whole number of at least {least} ({why}), not {value!r}"
        )


def _check(params: SamplingParams) -> None:
    temperature = _number(params, "temperature")
    if temperature < 0 or 0 < temperature < 1e-6:
        raise OptionError(
            f"temperature must be 0 (greedy) or at least 1e-6, not {temperature!r}; "
            "1.0 leaves the law as it is"
        )
    if not 0 < _number(params, "top_p") <= 1:
        raise OptionError(f"top_p must be above 0 and at most 1 (1 is off), not {params.top_p!r}")
    if not 0 <= _number(params, "min_p") <= 1:
        raise OptionError(f"min_p must be between 0 (off) and 1, not {params.min_p!r}")
    if _number(params, "repetition_penalty") <= 0:
        raise OptionError(
            f"repetition_penalty must be above 0 (1 is off), not {params.repetition_penalty!r}"
        )
    for name in ("presence_penalty", "frequency_penalty"):
        _number(params, name)
    for i, bias in params.logit_bias.items():
        if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not math.isfinite(bias):
            raise OptionError(
                f"logit_bias[{i}] must be finite, not {bias!r}; to forbid an id, use banned"
            )
    _whole(params, "top_k", 0, "0 is off")
    _whole(params, "min_tokens", 0, "0 is off")
    _whole(params, "max_tokens", 1, "the least that can be generated")
    if params.min_tokens > params.max_tokens:
        raise OptionError(
            f"min_tokens ({params.min_tokens}) must be at most max_tokens ({params.max_tokens})"
        )
    for text in params.stop:
        if not isinstance(text, str) or not text:
            raise OptionError(f"stop takes non-empty strings, not {text!r}; for ids use stop_ids")
    seed = params.seed
    if seed is not None and (
        isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**128
    ):
        raise OptionError(
            f"seed must be None (fresh) or a whole number from 0 below 2**128, not {seed!r}"
        )
    for processor in params.processors:
        if not callable(processor):
            raise OptionError(
                f"processors must be functions (ids, logits) -> logits, not {processor!r}"
            )
