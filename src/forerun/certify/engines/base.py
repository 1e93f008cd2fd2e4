"""What certification needs of an engine: samples of a prompt, as token ids.

    engine.sample(prompt_ids, n, sampling, seed) -> n lists of ids

Sample i of a request has a seed of its own, `sample_seed(seed, i)`, so that all samples of a run
are independent: an engine that shared noise between them would be judged by a test that takes them
for more than they are.

What this module does not know: any engine, or what is made of the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from forerun.errors import CapabilityError

Tokens = tuple[int, ...]
"""Ids of one sample, up to and with the one that ended it."""

CONTROLS = frozenset({
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "logit_bias", "banned", "min_tokens", "max_tokens", "stop_ids",
})  # fmt: skip
"""Sampling keywords that a setting may use, under the library's names."""

Precision = Literal["float64", "float32", "float16", "bfloat16", "quantised"]

SEEDS = 2**31  # some engines take no larger ones
_STRIDE = 0x9E3779B1  # odd, so that seeds repeat only after all of them were used


@dataclass(frozen=True, kw_only=True)
class Told:
    """What an engine says of a sample beside its ids, all of it known before the token at whose
    place it stands. None: it does not say."""

    depths: tuple[int, ...] | None = None  # tokens of the round before each
    guesses: tuple[int, ...] | None = None
    """The drafted token, where it follows from the prefix alone (q is a point mass); −1 elsewhere.
    Never one that was sampled: given that, a lossless engine's token does not follow p."""
    laws: tuple[Mapping[int, float], ...] | None = None
    """Log-probabilities of the likeliest ids at each place, by the engine itself."""
    end: int | None = None  # the id that ended the text, where only the engine knows that it does


NOTHING = Told()


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What an engine can do, and what it promises."""

    controls: frozenset[str] = CONTROLS  # sampling keywords it understands as the library does
    drafts: bool = True  # `num_draft` in the sampling sets γ
    switches: bool = True  # `num_draft` 0 turns speculation off
    seeds: bool = False  # promises a seed's tokens to be the same with speculation on and off
    parallel: int = 1  # calls of `sample` that may run at once; they may share a batch
    precision: Precision = "float32"  # of what it computes
    temperature_last: bool = False  # cuts (top-k, top-p, min-p) come before the temperature


class Engine(Protocol):
    """An engine under test."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> Traits: ...

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> Sequence[Sequence[int]]:
        """`n` samples after the prompt.

        sampling  keywords among `traits.controls`, `max_tokens` always among them, and perhaps
                  `num_draft`
        seed      below 2**31; sample i is drawn with `sample_seed(seed, i)`

        PeerError where it failed and may be asked again; CapabilityError for what it cannot do.
        """
        ...

    def describe(self) -> Mapping[str, Any]:
        """Versions and settings, for the report; plain JSON."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Telling(Engine, Protocol):
    """An engine that says more of its samples."""

    def tell(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> Sequence[tuple[Sequence[int], Told]]:
        """The same samples as `sample`, with what is told of each."""
        ...


def asked(
    engine: Engine, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
) -> list[tuple[Tokens, Told]]:
    """Samples with what is told of them, which may be nothing."""
    if isinstance(engine, Telling):
        return [(tuple(ids), told) for ids, told in engine.tell(prompt_ids, n, sampling, seed)]
    found = engine.sample(prompt_ids, n, sampling, seed)
    return [(tuple(ids), NOTHING) for ids in found]


def sample_seed(seed: int, index: int) -> int:
    """Seed of the sample that is `index` places behind the one of `seed`: never the same twice
    among 2**31 in a row."""
    return (seed + index * _STRIDE) % SEEDS


def check_controls(engine: Engine, sampling: Mapping[str, Any]) -> None:
    """CapabilityError that names what the engine does not take."""
    if unknown := sorted(set(sampling) - engine.traits.controls - {"num_draft"}):
        raise CapabilityError(f"{engine.name} has no {', '.join(unknown)}")
    gamma = sampling.get("num_draft")
    if gamma == 0 and not engine.traits.switches:
        raise CapabilityError(f"{engine.name} cannot turn speculation off")
    if gamma and not engine.traits.drafts:
        raise CapabilityError(f"{engine.name} cannot be told how many tokens to draft")
