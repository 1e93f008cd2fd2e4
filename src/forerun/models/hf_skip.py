"""Leaving layers of a transformers module out: for one pass they hand on what comes in.

    layers = layers_of(module, config)          None where they cannot be told apart
    with layers.without({4, 5, 6}): module(…)   those of the numbers 4, 5, 6 compute nothing

A layer takes hidden states first, whatever else it is given, and returns them alone or first of a
tuple: which of the two is learnt from a pass. Masks, positions and the cache are the same
for those that are left, each of which knows its own number.

What this module does not know: slots, and what the pass is for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


class Layers:
    """A module's decoder layers, in order."""

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        self._modules = tuple(modules)
        self._in_a_tuple = False

    @contextmanager
    def learn(self) -> Iterator[None]:
        """A pass made meanwhile shows how layers return their states."""

        def seen(module: torch.nn.Module, given: Any, returned: Any) -> None:
            self._in_a_tuple = isinstance(returned, tuple)

        hook = self._modules[0].register_forward_hook(seen)
        try:
            yield
        finally:
            hook.remove()

    @contextmanager
    def without(self, skipped: Collection[int]) -> Iterator[None]:
        """Layers of these numbers hand on their input."""
        left_out = [self._modules[i] for i in skipped]
        own = [vars(module).get("forward") for module in left_out]
        try:
            for module in left_out:
                module.forward = self._handed_on
            yield
        finally:
            for module, forward in zip(left_out, own):
                if forward is None:
                    vars(module).pop("forward", None)
                else:
                    module.forward = forward

    def _handed_on(self, *given: Any, **more: Any) -> Any:
        states = given[0] if given else more["hidden_states"]
        return (states,) if self._in_a_tuple else states


def layers_of(module: torch.nn.Module, config: Any) -> Layers | None:
    """The decoder's only list of as many modules as the config has layers; None where there is no
    such, and where layers read what others cached, so that none could be missed."""
    decoder: Any = getattr(module, "get_decoder", lambda: module)()
    count = config.num_hidden_layers
    if getattr(config, "num_kv_shared_layers", 0):
        return None
    found = [
        each
        for each in decoder.children()
        if isinstance(each, torch.nn.ModuleList) and len(each) == count
    ]
    return Layers(list(found[0])) if len(found) == 1 else None
