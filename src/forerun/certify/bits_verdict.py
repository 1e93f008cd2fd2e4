"""Greedy text with speculation on and off: the same, a near-tie of floating point, or a fault.

A pass over several rows may round differently from one over a single row, so that two tokens almost
equally likely change places. Where texts part, the reference says by how much the lesser of the two
tokens was behind: within `TIES` of the engine's precision it is a near-tie, beyond it a fault.

What this module does not know: laws of sampled text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forerun.certify.engines.base import Engine, Tokens
from forerun.certify.reference import Reference
from forerun.errors import CapabilityError, PeerError

TIES = {
    "float64": 1e-9, "float32": 1e-3, "float16": 0.05, "bfloat16": 0.4, "quantised": 0.4,
}  # fmt: skip
"""Differences of logits that rounding can bring about, by what an engine computes in."""

Status = Literal["same", "near-ties", "fault", "undecided", "not tested"]


@dataclass(frozen=True, kw_only=True)
class Parting:
    """Where two greedy texts part."""

    prompt: tuple[int, ...]
    position: int
    on: int | None  # token with speculation, None: the text had ended
    off: int | None
    best: int  # the reference's choice
    gap: float  # between the reference's two largest logits
    behind: float  # of the reference's largest logit over the lesser of the two tokens'
    tie: bool


@dataclass(frozen=True, kw_only=True)
class BitsVerdict:
    status: Status
    texts: int = 0
    tokens: int = 0
    partings: tuple[Parting, ...] = ()
    tie: float = 0.0  # margin up to which it is one
    why: str = ""

    @property
    def sentence(self) -> str:
        if self.status == "not tested":
            return f"not tested: {self.why}"
        if self.status == "same":
            return (
                f"greedy text is the same with speculation on and off: {self.texts} texts, "
                f"{self.tokens} tokens"
            )
        what = f"{len(self.partings)} of {self.texts} greedy texts differ"
        widest = max(self.partings, key=lambda each: each.behind)
        if self.status == "near-ties":
            return f"{what}, each at a near-tie (margin at most {widest.behind:.2g})"
        if self.status == "undecided":
            return (
                f"{what}, and the text without speculation is not the reference's choice either "
                f"(behind by {widest.behind:.2g}): the reference differs"
            )
        return (
            f"{what}, and not at a near-tie: token {widest.on} for {widest.off} at position "
            f"{widest.position}, {widest.behind:.2g} behind (a near-tie is at most {self.tie:g})"
        )


def bits_verdict(
    engine: Engine,
    reference: Reference,
    prompts: Sequence[tuple[int, ...]],
    *,
    max_tokens: int,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> BitsVerdict:
    """Compare one greedy text of each prompt, on and off."""
    tie = TIES[engine.traits.precision]
    if not engine.traits.switches:
        return BitsVerdict(status="not tested", why=f"{engine.name} cannot turn speculation off")
    sampling = {"temperature": 0.0, "max_tokens": max_tokens, **(options or {})}
    partings, tokens, undecided = [], 0, False
    try:
        for prompt in prompts:
            on = tuple(engine.sample(prompt, 1, sampling, seed)[0])
            off = tuple(engine.sample(prompt, 1, {**sampling, "num_draft": 0}, seed)[0])
            tokens += len(on)
            if on == off:
                continue
            parting = _parting(reference, prompt, on, off, sampling, tie)
            partings.append(parting)
            undecided |= not parting.tie and parting.off != parting.best and parting.gap > tie
    except (PeerError, CapabilityError) as error:
        return BitsVerdict(status="not tested", why=str(error))
    status: Status = "same"
    if partings:
        faults = any(not each.tie for each in partings)
        status = "near-ties" if not faults else "undecided" if undecided else "fault"
    return BitsVerdict(
        status=status, texts=len(prompts), tokens=tokens, partings=tuple(partings), tie=tie
    )


def first_difference(on: Tokens, off: Tokens) -> int:
    """Position of the first token that differs; the shorter one's length where it ends there."""
    for i, (a, b) in enumerate(zip(on, off)):
        if a != b:
            return i
    return min(len(on), len(off))


def _parting(
    reference: Reference,
    prompt: tuple[int, ...],
    on: Tokens,
    off: Tokens,
    sampling: Mapping[str, Any],
    tie: float,
) -> Parting:
    at = first_difference(on, off)
    a, b = (text[at] if at < len(text) else None for text in (on, off))
    # a text that is over has no token here: that is never a matter of rounding
    pair = (a if a is not None else -1, b if b is not None else -1)
    margin = reference.margin((*prompt, *off[:at]), len(prompt), sampling, pair)
    return Parting(
        prompt=prompt,
        position=at,
        on=a,
        off=b,
        best=margin.best,
        gap=margin.gap,
        behind=margin.behind,
        tie=margin.behind <= tie,
    )
