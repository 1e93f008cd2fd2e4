"""The same seed with speculation on and off: the same tokens, where the engine promises it.

What this module does not know: laws. Equal tokens prove no law, and different ones break none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from forerun.certify.bits_verdict import first_difference
from forerun.certify.engines.base import Engine, sample_seed
from forerun.errors import CapabilityError, PeerError

Status = Literal["same", "broken", "not promised", "not tested"]


@dataclass(frozen=True, kw_only=True)
class SeedDifference:
    """One seed whose texts part."""

    prompt: tuple[int, ...]
    seed: int
    sampling: Mapping[str, Any]
    on: tuple[int, ...]
    off: tuple[int, ...]

    @property
    def position(self) -> int:
        return first_difference(self.on, self.off)


@dataclass(frozen=True, kw_only=True)
class SeedVerdict:
    status: Status
    texts: int = 0
    tokens: int = 0
    differences: tuple[SeedDifference, ...] = ()
    why: str = ""

    @property
    def sentence(self) -> str:
        found = (
            f"{len(self.differences)} of {self.texts} seeded texts differ with speculation on "
            "and off"
        )
        if self.status == "not tested":
            return f"not tested: {self.why}"
        if self.status == "same":
            return (
                f"a seed's text is the same with speculation on and off: {self.texts} texts, "
                f"{self.tokens} tokens"
            )
        if self.status == "not promised":
            return f"not promised ({found})"
        first = self.differences[0]
        return f"promised and broken: {found}; seed {first.seed} from position {first.position} on"


def seed_verdict(
    engine: Engine,
    prompts: Sequence[tuple[int, ...]],
    samplings: Sequence[Mapping[str, Any]],
    *,
    seed: int,
) -> SeedVerdict:
    """One text of each prompt under each sampling, each with a seed of its own, on and off."""
    if not engine.traits.switches:
        return SeedVerdict(status="not tested", why=f"{engine.name} cannot turn speculation off")
    differences, texts, tokens = [], 0, 0
    try:
        for sampling in samplings:
            for prompt in prompts:
                own = sample_seed(seed, texts)
                on = tuple(engine.sample(prompt, 1, sampling, own)[0])
                off = tuple(engine.sample(prompt, 1, {**sampling, "num_draft": 0}, own)[0])
                texts, tokens = texts + 1, tokens + len(on)
                if on != off:
                    differences.append(
                        SeedDifference(prompt=prompt, seed=own, sampling=sampling, on=on, off=off)
                    )
    except (PeerError, CapabilityError) as error:
        return SeedVerdict(status="not tested", why=str(error))
    promised = engine.traits.seeds
    status: Status = "not promised" if not promised else "broken" if differences else "same"
    return SeedVerdict(status=status, texts=texts, tokens=tokens, differences=tuple(differences))
