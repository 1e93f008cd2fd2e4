"""The target drafts for itself with some of its layers left out: no other model, no training.

    slot   [ … text … , last ]      passes without layers 3 to 12:   last -> x_0,   x_0 -> x_1,   …
                                    then keep(length), and the slot is as it was; the round's pass
                                    of the whole model judges x_0, x_1, …

It drafts on the target's own slot, behind the text, whose keys and values are the whole model's:
there is nothing to read first, and what a draft caches is dropped before it is judged, so that not
a bit of the target's pass depends on it. (Zhang et al. 2023, Draft & Verify, section 3.)

How many layers can be missed, and which, differs from model to model and from text to text. So
several sets are on offer: each is a way to draft, with passes of its own cost and an account of its
own of what came true, and `control` takes, round by round, the way that promises most tokens per
second. All are believed in until they were tried. Xia et al. 2024 (SWIFT, section 4) choose sets
while they write, too, by how well each would have guessed a stretch of the text: passes that draft
nothing. Here acceptance itself decides, which costs none. Where γ is fixed, so is the set: it is
the first. Which set drafts follows from earlier rounds, and from times; never from this round's
tokens or coins.

A model that was trained to leave early (Elhoushi et al. 2024, LayerSkip) drafts without its last
layers: `skip=range(12, 32)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forerun.drafters.base import DrafterTraits, DraftRequest, Outlook, refuse_twice
from forerun.drafters.model import Chain, DraftSlot, ModelDrafter
from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.shallow import Shallow
from forerun.numerics.token_tree import NOTHING, Drawn, Proposal
from forerun.sampling import is_whole

FIRST = 1 / 8
"""Of a model's layers, where a run that is left out begins."""

OFFERED = ((3 / 8, FIRST), (1 / 2, FIRST), (1 / 4, FIRST), (1 / 4, 1 / 4))
"""Runs of layers that are tried: how many of all there are, and from where on."""


class LayerSkipDrafter:
    """Drafts chains with the target's own layers, some of them left out.

        LayerSkipDrafter()                       several sets, the best of them in each round
        LayerSkipDrafter(skip=8)                 8 layers that stand together
        LayerSkipDrafter(skip=[4, 5, 6, 9])      these, numbered from 0

    sampling   parameters of the draft's law that are not the request's; see `ModelDrafter`

    OptionError for values that make no sense; see `check` for the rest.
    """

    name = "layer-skip"
    traits = DrafterTraits(drawn=Drawn.SAMPLED, laws=True)

    def __init__(
        self, skip: int | Iterable[int] | None = None, *, sampling: Mapping[str, Any] | None = None
    ) -> None:
        self._skip = checked_skip(skip)
        self._sampling = sampling
        self._of_sets: dict[str, _OfSet] = {}  # once `check` has seen the target
        self._slots: set[int] = set()

    @property
    def models(self) -> dict[str, Model]:
        """What makes the passes of each set, by `Outlook.passes`."""
        return {name: one.model for name, one in self._of_sets.items()}

    def check(self, target: Model) -> None:
        """CapabilityError where the target cannot leave layers out, OptionError where it does not
        have those of `skip`."""
        layers = Shallow(target, ()).depth
        sets = [self._skip] if isinstance(self._skip, tuple) else runs(self._skip, layers)
        self._of_sets = {
            f"{self.name} {ranges(one)}": _OfSet(Shallow(target, one), sampling=self._sampling)
            for one in sets
        }

    def begin(
        self, slot: int, prompt: Sequence[int], *, recall: bool = True, tenant: str = ""
    ) -> None:
        refuse_twice(slot, self._slots)
        self._slots.add(slot)

    def ways(self, slot: int, length: int, most: int) -> Sequence[Outlook]:
        """With each set as far as the target's context reaches."""
        return [
            Outlook(most=one.reach(length, most), unread=1, passes=name)
            for name, one in self._of_sets.items()
        ]

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        usual, found = next(iter(self._of_sets)), [NOTHING] * len(requests)
        for name, one in self._of_sets.items():
            mine = [i for i, r in enumerate(requests) if (r.passes or usual) == name]
            for i, proposal in zip(mine, one.propose([requests[i] for i in mine]), strict=True):
                found[i] = proposal
        return found

    def observe(self, slot: int, committed: Sequence[int]) -> None:
        """The target's slot holds it already."""

    def end(self, slot: int) -> None:
        self._slots.remove(slot)


class _OfSet(ModelDrafter):
    """Chains by one set: as a draft model's, whose slots are the target's and stay as they were."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Proposal]:
        held = {request.slot: self.model.length(request.slot) for request in requests}
        try:
            return super().propose(requests)
        finally:
            for slot, length in held.items():
                self.model.keep(slot, length)

    def _chain(self, request: DraftRequest) -> Chain | None:
        most = self.reach(len(request.ids), request.num_draft)
        if most < 1:
            return None
        state = DraftSlot(slot=request.slot, cached=self.model.length(request.slot))
        return self._begun(request, state, most)


def runs(skip: int | None, layers: int) -> list[tuple[int, ...]]:
    """Sets of layers that stand together, for a model of so many: of `skip`, or those on offer.

    The first layer and the last are never among them. OptionError where that leaves too few.
    """
    if not 1 <= (1 if skip is None else skip) <= layers - 2:
        raise OptionError(
            f"of {layers} layers at most {max(layers - 2, 0)} can be left out, for the first and"
            f" the last are needed, not {1 if skip is None else skip}"
        )
    wanted = OFFERED if skip is None else ((skip / layers, FIRST),)
    found = []
    for share, begin in wanted:
        count = min(max(round(share * layers), 1), layers - 2)
        start = min(max(int(begin * layers), 1), layers - 1 - count)
        found.append(tuple(range(start, start + count)))
    return list(dict.fromkeys(found))


def ranges(layers: Sequence[int]) -> str:
    """Rising numbers in few words: 3-12, or 4,6-8."""
    found = list[list[int]]()
    for layer in layers:
        if found and layer == found[-1][-1] + 1:
            found[-1].append(layer)
        else:
            found.append([layer])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in found)


def checked_skip(skip: Any) -> int | tuple[int, ...] | None:
    """A number of layers, a set of them in order, or None."""
    if skip is None:
        return None
    if is_whole(skip) and skip > 0:
        return int(skip)
    chosen = list(skip) if isinstance(skip, Iterable) and not isinstance(skip, str) else []
    if not chosen or not all(is_whole(layer) for layer in chosen):
        raise OptionError(
            "skip is how many layers to leave out, at least 1, or which of them, numbered from 0,"
            f" such as [4, 5, 6]; not {skip!r}"
        )
    return tuple(sorted({int(layer) for layer in chosen}))
