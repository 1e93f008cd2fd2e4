"""forerun itself, in this process.

What this module does not know: laws. The reference has a model object of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forerun.certify.engines.base import (
    Precision,
    Tokens,
    Told,
    Traits,
    check_controls,
    sample_seed,
)
from forerun.drafters.base import Drafter
from forerun.engine.choices import AUTO
from forerun.engine.engine import Engine
from forerun.models.base import Model
from forerun.trace import Round


class OwnEngine:
    """`Engine` behind the protocol. Every request of it has a seed, so that `auto` is `coupled`;
    name another verifier to test that one."""

    def __init__(
        self,
        target: Model,
        drafter: Drafter | str | None = None,
        *,
        verifier: str = AUTO,
        num_draft: int | str = AUTO,
        max_batch: int = 8,
        costs: Sequence[float] | None = None,
        precision: Precision = "float32",
        described: Mapping[str, Any] | None = None,
    ) -> None:
        gamma: Any = num_draft
        self._engine = Engine(
            target, drafter, verifier=verifier, num_draft=gamma, max_batch=max_batch, costs=costs
        )
        names = "none" if self._engine.drafter is None else self._engine.drafter.name
        self.name = f"forerun ({names}, {verifier})"
        self.traits = Traits(seeds=verifier in (AUTO, "coupled"), parallel=3, precision=precision)
        self._described = {
            "target": target.name,
            "drafter": names,
            "verifier": verifier,
            "num_draft": num_draft,
            **(described or {}),
        }

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[Tokens]:
        return [tokens for tokens, _ in self.tell(prompt_ids, n, sampling, seed)]

    def tell(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[tuple[Tokens, Told]]:
        check_controls(self, sampling)
        prompts: list[Any] = [list(prompt_ids)] * n
        each = [{**sampling, "seed": sample_seed(seed, i)} for i in range(n)]
        found = self._engine.generate_batch(prompts, each)
        for done in found:
            if done.error is not None:
                raise done.error
        return [(done.tokens, told(done.trace)) for done in found]

    def describe(self) -> dict[str, Any]:
        return {"engine": "forerun", **self._described}

    def close(self) -> None:
        self._engine.close()


def told(rounds: Sequence[Round]) -> Told:
    """Of a trace: each token's depth in its round, and the guess at its place.

    A chain's token with q = 1 is a point mass, a function of what came before: lookups, greedy
    drafts. Of trees no guess is told, for there are several at a place.
    """
    depths, guesses = list[int](), list[int]()
    for each in rounds:
        drafted = each.drafted
        chain = all(one.parent == i - 1 for i, one in enumerate(drafted))
        for place in range(len(each.tokens)):
            known = chain and place < len(drafted) and drafted[place].q == 1
            depths.append(place)
            guesses.append(drafted[place].token if known else -1)
    return Told(depths=tuple(depths), guesses=tuple(guesses))
