"""Samples, held against the reference: tests of the whole and of each setting, endings, contexts.

A text is followed token by token up to its end, or to where it breaks off: at a token after the
end, at one that is no id, at one on the edge of a cut (`reference.py`). Whether it breaks off
there has chance 0 under a lossless engine.

What this module does not know: engines, time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forerun.certify import endings
from forerun.certify.contexts import Contexts
from forerun.certify.diagnostics import Diagnostics
from forerun.certify.engines.base import NOTHING, Told
from forerun.certify.law_test import LawTest
from forerun.certify.observation import Array, Observation
from forerun.certify.reference import Place, Reference

BINS = 50
"""Of u, for pictures."""

SMALL = 4096
"""Up to so large a vocabulary, laws under the controls' own faults are computed too."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A text that ended wrongly, or a token that the target never writes there."""

    setting: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    why: str


@dataclass
class Part:
    """What one setting's texts say."""

    test: LawTest
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    edges: int = 0

    @property
    def fault(self) -> bool:
        return self.test.fault or self.broken_count > 0


class Tally:
    """Takes samples in submission order.

    level   of the test of all settings together; `part_level` of each setting's own
    draft   a reference for the draft's law, whose vocabulary is the target's, or None
    """

    def __init__(
        self,
        reference: Reference,
        *,
        level: float,
        part_level: float,
        claim: float = 0.01,
        seed: int = 0,
        draft: Reference | None = None,
    ) -> None:
        self.reference, self.draft = reference, draft
        self._part_level, self._claim, self._seed = part_level, claim, seed
        self.whole = Part(LawTest(level=level, claim=claim, seed=seed))
        self.parts: dict[str, Part] = {}
        self.contexts = Contexts()
        self.diagnostics = Diagnostics()
        self.uniform: NDArray[np.int64] = np.zeros(BINS, dtype=np.int64)
        self._noise = np.random.default_rng([seed, 0x0F16])

    def part(self, setting: str) -> Part:
        if setting not in self.parts:
            test = LawTest(level=self._part_level, claim=self._claim, seed=self._seed)
            self.parts[setting] = Part(test)
        return self.parts[setting]

    def add(
        self,
        setting: str,
        prompt: tuple[int, ...],
        samples: Sequence[tuple[int, ...]],
        sampling: Mapping[str, Any],
        told: Sequence[Told] = (),
    ) -> None:
        """Samples of one request, in their order, and what the engine told of each."""
        params = self.reference.params(sampling)
        small = self.reference.vocab_size <= SMALL
        told = told or [NOTHING] * len(samples)
        ends = [params.end_ids if one.end is None else params.end_ids | {one.end} for one in told]
        for tokens, own in zip(samples, ends):
            fault = endings.fault(
                tokens,
                max_tokens=params.max_tokens,
                end_ids=own,
                vocab_size=self.reference.vocab_size,
            )
            if fault is not None:
                self._broke(setting, prompt, tokens, fault)
        sound = [self._sound(tokens, own) for tokens, own in zip(samples, ends)]
        known = [tokens for tokens in sound if tokens]
        says = [_first(one, len(tokens)) for one, tokens in zip(told, sound) if tokens]
        drafts = (
            self.draft.places(prompt, known, sampling)
            if self.draft is not None
            else [None] * len(known)
        )
        for places, drafted, one in zip(
            self.reference.places(prompt, known, sampling, faults=small, told=says), drafts, says
        ):
            self._follow((setting, _shown(sampling)), prompt, places, drafted, one)

    def _follow(
        self,
        where: tuple[str, str],
        prompt: tuple[int, ...],
        places: Sequence[Place],
        drafted: Sequence[Place] | None,
        told: Told,
    ) -> None:
        setting = where[0]
        own = self.part(setting)
        whole, part = self.whole.test.sequences, own.test.sequences
        for position, place in enumerate(places):
            if place.edge:
                own.edges += 1
                self.whole.edges += 1
                return
            output = place.prefix[len(prompt) :]
            common: dict[str, Any] = {
                "position": position,
                "token": place.token,
                "p": place.p,
                "prefix": place.prefix,
                "q": _drafts(told, position, drafted, len(place.p)),
                "depth": None if told.depths is None else told.depths[position],
                "prompt": prompt,
                "setting": setting,
                "others": place.others,
                "rounding": place.rounding,
            }
            self.whole.test.observe(Observation(sequence=whole, **common))
            own.test.observe(Observation(sequence=part, **common))
            self.contexts.add(where, prompt, output, place.token, place.p)
            self._count(place)
            if place.p[place.token] == 0:
                why = f"token {place.token} at position {position} has probability 0 there"
                self._broke(setting, prompt, (*output, place.token), why)

    def _count(self, place: Place) -> None:
        """u of the token, the likelier first: for pictures and diagnostics."""
        p = place.p
        own = p[place.token]
        above = float(p[p > own].sum() + p[: place.token][p[: place.token] == own].sum())
        u = above + float(self._noise.random()) * float(own)
        self.uniform[min(int(u * BINS), BINS - 1)] += 1
        self.diagnostics.observe(min(u, 1.0))

    def _sound(self, tokens: tuple[int, ...], end_ids: frozenset[int]) -> tuple[int, ...]:
        """Up to the first end token, or to before the first that is no id."""
        for i, token in enumerate(tokens):
            if not 0 <= token < self.reference.vocab_size:
                return tokens[:i]
            if token in end_ids:
                return tokens[: i + 1]
        return tokens

    def _broke(
        self, setting: str, prompt: tuple[int, ...], tokens: tuple[int, ...], why: str
    ) -> None:
        for part in (self.whole, self.part(setting)):
            part.broken_count += 1
            if len(part.broken) < 5:
                part.broken.append(Broken(setting=setting, prompt=prompt, tokens=tokens, why=why))


def _shown(sampling: Mapping[str, Any]) -> str:
    """What of a request shapes the law."""
    kept = {k: v for k, v in sampling.items() if k not in ("max_tokens", "num_draft")}
    return ", ".join(f"{name} {value}" for name, value in kept.items())


def _first(told: Told, count: int) -> Told:
    """Of the first tokens alone: a text is followed only to where it breaks off."""
    if told.laws is None or len(told.laws) == count:
        return told
    return replace(told, laws=told.laws[:count])


def _drafts(told: Told, position: int, drafted: Sequence[Place] | None, size: int) -> Array | None:
    """q: one-hot where the guess is told, else the draft's law where that is known."""
    if told.guesses is not None and 0 <= (guess := told.guesses[position]) < size:
        q = np.zeros(size)
        q[guess] = 1.0
        return q
    return None if drafted is None else _fitted(drafted[position].p, size)


def _fitted(q: Array, size: int) -> Array:
    """A draft's law over the target's ids: what it has beyond them is left out."""
    if len(q) == size:
        return q
    found = np.zeros(size)
    found[: min(len(q), size)] = q[:size]
    total = found.sum()
    return found / total if total > 0 else np.full(size, np.nan)
