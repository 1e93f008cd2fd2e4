"""A model without some of its layers, on the model's own slots: what it drafts with for itself.

    shallow = Shallow(model, layers=(9, 10, 11))
    shallow.extend([Step(slot=slot, tokens=(5,))])    a pass of the other layers; then as often more
    shallow.keep(slot, length)                        the slot is the model's again, as it was

What the slot holds of the text was cached by the whole model; passes behind it read that, in the
layers they have, so that nothing is read twice and no memory is taken but for what is drafted. A
layer adds to what comes into it, and in the middle mostly little: that is why the rest still
guesses well. (Zhang et al. 2023, Draft & Verify, section 3.)

What this module does not know: which layers are worth leaving out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from forerun.errors import CapabilityError
from forerun.models.base import (
    Abilities,
    Model,
    Pages,
    Skipping,
    Step,
    checked_layers,
)


class Shallow:
    """A `Model` of `model` without `layers`, by their numbers from 0 on.

    Its slots are the model's. CapabilityError where the model cannot leave layers out, OptionError
    for a layer it does not have.
    """

    def __init__(self, model: Model, layers: Iterable[int]) -> None:
        if not model.abilities.skips:
            raise CapabilityError(
                f"{model.name} cannot leave layers out: the native backend can (GGUF files), and hf"
                " with models whose layers do not share what they cache"
            )
        self.model = model
        self.layers = tuple(sorted(set(layers)))
        self._skipping = cast(Skipping, model)
        checked_layers(self.layers, self._skipping.layers)
        self._skipped = frozenset(self.layers)
        self.name = f"{model.name} without layers {', '.join(map(str, self.layers))}"
        self.vocab_size, self.eos = model.vocab_size, model.eos
        self.context, self.tokenizer = model.context, model.tokenizer
        self.abilities = Abilities(trees=model.abilities.trees, pages=False)

    @property
    def depth(self) -> int:
        """Layers of the whole model."""
        return self._skipping.layers

    @property
    def cost_key(self) -> str | None:
        """See `models/cost.py`; layers are taken to cost the same."""
        own = getattr(self.model, "cost_key", None)
        return None if own is None else f"{own}, without {len(self.layers)} layers"

    @property
    def pass_seconds(self) -> tuple[float, ...] | None:
        """Where the model states its own, their share."""
        own, share = getattr(self.model, "pass_seconds", None), 1 - len(self.layers) / self.depth
        return None if own is None else tuple(share * seconds for seconds in own)

    def open(self) -> int:
        return self.model.open()

    def close(self, slot: int) -> None:
        self.model.close(slot)

    def length(self, slot: int) -> int:
        return self.model.length(slot)

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        return self._skipping.skim(steps, self._skipped)

    def keep(self, slot: int, length: int, path: Sequence[int] | None = None) -> None:
        self.model.keep(slot, length, path)

    def fits(self, lengths: Sequence[int]) -> bool:
        return self.model.fits(lengths)

    def save(self, slot: int, start: int, stop: int) -> Pages:
        raise CapabilityError(f"{self.name}: pages are the whole model's")

    def restore(self, slot: int, pages: Pages, count: int) -> None:
        raise CapabilityError(f"{self.name}: pages are the whole model's")


def is_part(draft: Model, target: Model) -> bool:
    """Whether `draft` is `target` without some of its layers: with its weights, in its slots."""
    return getattr(draft, "model", None) is target
