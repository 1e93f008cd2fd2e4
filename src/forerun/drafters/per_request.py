"""The drafters of an engine, and which of them each request has.

    drafters = PerRequestDrafter(HybridDrafter([SuffixDrafter(), ModelDrafter(small)]))
    drafters.begin(0, prompt)                                     # slot 0: suffix, model
    drafters.begin(1, prompt, names=["suffix"])                   # slot 1: suffix alone
    drafters.begin(2, prompt, names=["prediction"], prediction=ids)
    drafters.begin(3, prompt, names=["grammar", "suffix"], grammar=matcher)
    drafters.of(2)                                                # {"prediction": …}

A part that a request does not have never hears of it. There is always a part "prediction", so that
any request may bring one; the engine's own, where it has one, follows the request's instead. And
there is always a part "grammar", for requests that have one.

What this module does not know: who of them drafts in a round; `control` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from forerun.drafters.base import Drafter, DraftRequest, begin, parts
from forerun.drafters.grammar import Forcing, GrammarDrafter
from forerun.drafters.hybrid import joint_traits
from forerun.drafters.prediction import PredictionDrafter
from forerun.models.base import Model
from forerun.numerics.token_tree import Proposal


class PerRequestDrafter:
    """A `Drafter` over that of an engine, or over none.

    `usual` are the names of those that a request has unless it says otherwise: the engine's.
    """

    def __init__(self, drafter: Drafter | None) -> None:
        own = parts(drafter)
        self._engines = drafter
        self.usual = tuple(own)
        always: list[Drafter] = [GrammarDrafter(), PredictionDrafter([])]
        self.parts = {part.name: part for part in always} | own
        self.name = "+".join(self.parts)
        self.traits = joint_traits(self.parts.values())
        self._slots: dict[int, tuple[str, ...]] = {}

    def check(self, target: Model) -> None:
        if self._engines is not None:
            self._engines.check(target)

    def of(self, slot: int) -> dict[str, Drafter]:
        """Those that the request in this slot has, in order."""
        return {name: self.parts[name] for name in self._slots[slot]}

    def begin(
        self,
        slot: int,
        prompt: Sequence[int],
        *,
        recall: bool = True,
        tenant: str = "",
        names: Sequence[str] | None = None,
        prediction: Sequence[int] = (),
        grammar: Forcing | None = None,
    ) -> None:
        chosen = self.usual if names is None else tuple(names)
        begun: list[Drafter] = []
        try:
            for name in chosen:
                part = self.parts[name]
                begin(part, slot, prompt, recall=recall, tenant=tenant)
                begun.append(part)
                if prediction and isinstance(part, PredictionDrafter):
                    part.follow(slot, prediction)
                if grammar is not None and isinstance(part, GrammarDrafter):
                    part.follow(slot, grammar)
        except BaseException:
            for part in begun:
                part.end(slot)
            raise
        self._slots[slot] = chosen

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        names = {request.drafter for request in requests}
        if len(names) > 1:
            return [proposal for one in requests for proposal in self.propose([one])]
        for name in names:
            if name is not None and name not in self.usual:
                return self.parts[name].propose(requests)
        return [] if self._engines is None else self._engines.propose(requests)

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        for part in self.of(slot).values():
            part.observe(slot, committed)

    def end(self, slot: int) -> None:
        for part in self.of(slot).values():
            part.end(slot)
        del self._slots[slot]
