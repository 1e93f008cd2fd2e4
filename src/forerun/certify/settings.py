"""The settings that hide bugs: sampling controls, ends inside blocks, γ, lengths, company.

    matrix(reference, prompts, traits)   the settings an engine can do, cheapest and most telling
    first

Biases, bans and stop ids are chosen by what the reference finds likely after the first prompt, so
that they act: an end token that never comes tests no end.

What this module does not know: how they are run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forerun.certify.engines.base import Traits
from forerun.certify.reference import Reference

SHORT, LONG = 12, 24
"""Tokens of a sample: of tiny models, of others."""

OFTEN = 0.15
"""How likely an end token is made, where its coming is what is tested."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the matrix."""

    name: str
    sampling: Mapping[str, Any] = field(default_factory=dict)  # without lengths and γ
    num_draft: int | None = None  # None: the engine's own
    lengths: tuple[int, ...] = (SHORT,)  # of the requests in turn
    company: tuple[Mapping[str, Any], ...] = ()  # samplings of the requests in between

    def asked(self, number: int) -> dict[str, Any]:
        """The sampling of its request of that number."""
        turns = (self.sampling, *self.company)
        found = {
            **turns[number % len(turns)],
            "max_tokens": self.lengths[number % len(self.lengths)],
        }
        found["max_tokens"] = max(found["max_tokens"], found.get("min_tokens", 0))
        if self.num_draft is not None:
            found["num_draft"] = self.num_draft
        return found


def matrix(
    reference: Reference, prompts: Sequence[tuple[int, ...]], traits: Traits
) -> list[Setting]:
    """What of the matrix the engine's traits allow."""
    length = SHORT if reference.vocab_size <= 512 else LONG
    likely = _likely(reference, prompts[0])
    ends = sorted(reference.model.eos)
    wanted = [
        Setting(name="as it is"),
        Setting(name="temperature 1.5", sampling={"temperature": 1.5}),
        Setting(name="γ = 1", num_draft=1),
        Setting(name="γ = 8", num_draft=8),
        Setting(name="temperature 0.7", sampling={"temperature": 0.7}),
        Setting(name="top-k", sampling={"top_k": max(min(reference.vocab_size // 2, 20), 2)}),
        Setting(name="top-p", sampling={"top_p": 0.8}),
        Setting(name="repetition penalty", sampling={"repetition_penalty": 1.4}),
        Setting(name="stop id in a block", sampling={"stop_ids": [likely[1]]}),
        Setting(name="end token in a block", sampling=_ending(reference, prompts[0], ends)),
        Setting(name="ragged lengths", lengths=(1, 2, 3, 5, 8, length)),
        Setting(
            name="in company",
            lengths=(length, 2, 7, 4, length),
            company=({"temperature": 1.4}, {"temperature": 0.6, "top_p": 0.9}),
        ),
        Setting(name="min-p", sampling={"min_p": 0.1}),
        Setting(name="presence penalty", sampling={"presence_penalty": 0.8}),
        Setting(name="frequency penalty", sampling={"frequency_penalty": 0.6}),
        Setting(name="bias", sampling={"logit_bias": {likely[0]: -1.5, likely[2]: 1.0}}),
        Setting(name="ban", sampling={"banned": [likely[0]]}),
        Setting(
            name="min-tokens",
            sampling={**_ending(reference, prompts[0], ends), "min_tokens": 4},
        ),
        Setting(name="γ = 2", num_draft=2),
        Setting(
            name="temperature 0.8, top-k, top-p",
            sampling={"temperature": 0.8, "top_k": max(reference.vocab_size // 3, 3), "top_p": 0.9},
        ),
    ]
    return [_with_length(each, length) for each in wanted if _can(each, traits)]


def _with_length(setting: Setting, length: int) -> Setting:
    if setting.lengths != (SHORT,):
        return setting
    return Setting(**{**vars(setting), "lengths": (length,)})


def _can(setting: Setting, traits: Traits) -> bool:
    if any(set(one) - traits.controls for one in (setting.sampling, *setting.company)):
        return False
    if setting.num_draft is not None and not traits.drafts:
        return False
    return not setting.company or traits.parallel > 1


def _likely(reference: Reference, prompt: tuple[int, ...]) -> list[int]:
    """Three ids that are likely after the prompt and end no text, the likeliest first."""
    [[place]] = reference.places(prompt, [(0,)], {"max_tokens": 1})
    order = [int(i) for i in np.argsort(-place.p, kind="stable")]
    found = [i for i in order if i not in reference.model.eos][:3]
    return (found * 3)[:3]


def _ending(reference: Reference, prompt: tuple[int, ...], ends: Sequence[int]) -> dict[str, Any]:
    """A bias that makes an end token likely; without one, a stop id in its place."""
    if not ends:
        return {"stop_ids": [_likely(reference, prompt)[2]]}
    [[place]] = reference.places(prompt, [(0,)], {"max_tokens": 1})
    p = min(max(float(place.p[ends[0]]), 1e-12), 1 - 1e-12)
    bias = math.log(OFTEN / (1 - OFTEN)) - math.log(p / (1 - p))
    return {"logit_bias": {ends[0]: round(bias, 3)}} if abs(bias) > 0.1 else {}
