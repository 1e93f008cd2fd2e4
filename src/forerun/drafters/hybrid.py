"""Several drafters for one request, one of them in each round: `suffix+model`.

    drafter = HybridDrafter([SuffixDrafter(), ModelDrafter(small)])
    drafter.propose([DraftRequest(slot=0, drafter="model", ...)])     # asks the model alone

All of them follow the text; the one that is asked drafts. Who that is, is said in the request by
`control`, from the past alone; where it says nothing, the first in order that has something. One
that runs a model costs nothing while it is not asked: it catches up when it is.

Proposals carry how they were drawn, so that a verifier must be fit for each of the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forerun.drafters.base import Drafter, DrafterTraits, DraftRequest, begin, outlook
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.numerics.token_tree import NOTHING, Drawn, Proposal


def joint_traits(drafters: Iterable[Drafter]) -> DrafterTraits:
    """What a verifier must be fit for that judges proposals of any of them."""
    traits = [drafter.traits for drafter in drafters]
    drawn = [one.drawn for one in traits if one.drawn is not Drawn.DETERMINISTIC]
    return DrafterTraits(
        drawn=drawn[0] if drawn else Drawn.DETERMINISTIC,
        laws=any(one.laws for one in traits),
        chain=all(one.chain for one in traits),
    )


class HybridDrafter:
    """A `Drafter` of several, in the order of preference where they promise the same.

    `parts` are the drafters by name. OptionError for fewer than two, or two of one name.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        names = [drafter.name for drafter in drafters]
        if len(names) < 2 or len(set(names)) < len(names):
            raise OptionError(
                "several drafters are at least two with different names, not "
                f"{'+'.join(names) or 'none'}"
            )
        self.name = "+".join(names)
        self.traits = joint_traits(drafters)
        self._drafters = tuple(drafters)

    @property
    def parts(self) -> dict[str, Drafter]:
        return {drafter.name: drafter for drafter in self._drafters}

    def check(self, target: Model) -> None:
        for part in self._drafters:
            part.check(target)

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        begun: list[Drafter] = []
        try:
            for part in self._drafters:
                begin(part, slot, prompt, recall=recall, tenant=tenant)
                begun.append(part)
        except BaseException:
            for part in begun:
                part.end(slot)
            raise

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        asked = [request.drafter or self._first(request) for request in requests]
        found = [NOTHING] * len(requests)
        for name, part in self.parts.items():
            mine = [i for i, one in enumerate(asked) if one == name]
            for i, proposal in zip(mine, part.propose([requests[i] for i in mine]), strict=True):
                found[i] = proposal
        return found

    def _first(self, request: DraftRequest) -> str | None:
        """The first that has something to draft."""
        for name, part in self.parts.items():
            if outlook(part, request.slot, len(request.ids), request.num_draft).most > 0:
                return name
        return None

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        for part in self._drafters:
            part.observe(slot, committed)

    def end(self, slot: int) -> None:
        for part in self._drafters:
            part.end(slot)
