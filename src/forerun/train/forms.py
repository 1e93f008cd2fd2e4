"""The forms of heads that can be trained, by name.

    form = made("eagle3", target, taps, 16384)
    form.head.unrolled(rows, steps),  form.weights,  form.write(folder, ids)

What this module does not know: data, updates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from forerun.errors import OptionError
from forerun.models.heads.checkpoint import offsets, write_head
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.mlp_checkpoint import FORMS as MLP_FORMS
from forerun.models.heads.mlp_checkpoint import MLPConfig, write_mlp_head
from forerun.models.native.quantise import BLOCK
from forerun.train import eagle3, loss, mlp
from forerun.train.features import Taps
from forerun.train.target import FrozenTarget, Ids

FORMS = ("eagle3", *MLP_FORMS)
_WIDTH = 2  # of an MLP's hidden layer, in states


@dataclass(frozen=True, kw_only=True)
class Form:
    """A head to train, and how it is written; `weights` of its unrolled steps in the loss, and
    those that its training begins with: fewer, where later steps have no parameters of their own.
    """

    head: Any
    config: HeadConfig | MLPConfig
    weights: tuple[float, ...]
    early: tuple[float, ...]

    def write(self, folder: Path, ids: Ids) -> None:
        found = tensors(self.head) | offsets(ids, self.config.vocabulary)
        if isinstance(self.config, HeadConfig):
            write_head(folder, self.config, found)
        else:
            write_mlp_head(folder, self.config, found)


def tensors(head: nn.Module) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters by the checkpoint's names."""
    return {name: value.detach().float().numpy() for name, value in head.named_parameters()}


def usual_layers(form: str, layers: int) -> tuple[int, ...]:
    """EAGLE-3's: an early, a middle and a late one. Of heads without attention the last state."""
    return (2, layers // 2, max(layers - 3, 0)) if form == "eagle3" else (layers,)


def check_feed_forward(form: str, count: int | None) -> None:
    """OptionError for a number that is none, or a form that has no layer."""
    if count is None:
        return
    if form != "eagle3":
        raise OptionError(f"--feed-forward goes with --form eagle3, not {form}")
    if count < 1 or count % BLOCK:
        raise OptionError(f"--feed-forward is a multiple of {BLOCK}, not {count}")


def made(
    form: str,
    target: FrozenTarget,
    taps: Taps,
    draft_vocabulary: int,
    feed_forward: int | None = None,
) -> Form:
    """Not yet initialised. `feed_forward`: values in the middle of eagle3's layer; None: as many
    as the target's layers have."""
    if form == "eagle3":
        config = _eagle3(target, taps, draft_vocabulary)
        if feed_forward is not None:
            config = replace(config, feed_forward=feed_forward)
        head = eagle3.Eagle3(config, len(taps.chosen), target.embedding)
        return Form(head=head, config=config, weights=loss.WEIGHTS, early=loss.EARLY)
    hidden = target.numbers.hidden
    simple = MLPConfig(
        form=form,
        hidden=hidden,
        width=hidden if form == "medusa" else _WIDTH * hidden,
        depths=mlp.DEPTHS,
        vocabulary=target.numbers.vocabulary,
        draft_vocabulary=draft_vocabulary,
        taps=taps.chosen,
        target=target.name,
        fingerprint=target.fingerprint,
    )
    heads = mlp.MLPHeads(simple, target.embedding)
    return Form(head=heads, config=simple, weights=mlp.WEIGHTS, early=mlp.WEIGHTS)


def _eagle3(target: FrozenTarget, taps: Taps, draft_vocabulary: int) -> HeadConfig:
    n = target.numbers
    return HeadConfig(
        hidden=n.hidden,
        heads=n.heads,
        kv_heads=n.kv_heads,
        head_width=n.head_width,
        feed_forward=n.feed_forward,
        vocabulary=n.vocabulary,
        draft_vocabulary=draft_vocabulary,
        context=n.context,
        epsilon=n.epsilon,
        rotation_base=n.rotation.base,
        rotation_scale=n.rotation.scale,
        taps=taps.chosen,
        target=target.name,
        fingerprint=target.fingerprint,
    )
