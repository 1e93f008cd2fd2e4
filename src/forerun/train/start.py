"""A head that a run goes on from, in place of a random one.

    begun = Start.read(folder, target)
    begun.form, begun.layers, begun.ids          the new head has them from it
    begun.into(form)                             and begins with its weights

What this module does not know: data, updates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from forerun.errors import OptionError
from forerun.models.heads.checkpoint import Head
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.fit import check_fit
from forerun.models.heads.load import read_any
from forerun.models.heads.mlp_checkpoint import MLPHead
from forerun.models.heads.shipped import shipped
from forerun.train.forms import Form, tensors
from forerun.train.target import Ids

SHIPPED = "shipped"


@dataclass(frozen=True, kw_only=True)
class Start:
    """See the module's docstring."""

    head: Head | MLPHead
    layers: tuple[int, ...]

    @classmethod
    def read(cls, said: str, target: Any) -> Start:
        """Of a folder, or "shipped": the one that comes with forerun for this target. OptionError
        where there is none; else what `read_head` and `check_fit` raise."""
        folder = shipped(target) if said == SHIPPED else Path(said)
        if folder is None:
            raise OptionError(f"--from shipped: no head for {target.name} comes with forerun")
        head = read_any(folder)
        check_fit(said, head.config, int(head.ids.max()), target)
        if isinstance(head.config, HeadConfig):
            return cls(head=head, layers=head.config.tapped(target.layers))
        return cls(head=head, layers=head.config.taps)

    @property
    def form(self) -> str:
        return "eagle3" if isinstance(self.head.config, HeadConfig) else self.head.config.form

    @property
    def ids(self) -> Ids:
        return self.head.ids

    @property
    def feed_forward(self) -> int | None:
        config = self.head.config
        return config.feed_forward if isinstance(config, HeadConfig) else None

    def into(self, form: Form) -> Any:
        """The form's head, with these weights. OptionError where another is trained here than it
        is: of another width, or computed otherwise."""
        found: Any = self.head.config
        mine: Any = form.config
        named = {name: getattr(mine, name) for name in ("target", "fingerprint", "taps")}
        if isinstance(found, HeadConfig):
            named |= {"context": mine.context, "architectures": mine.architectures}
        own = tensors(form.head)
        read = {name: self.head[name] for name in own if name in self.head.tensors}
        shapes = {name: values.shape for name, values in read.items()}
        if replace(found, **named) != mine or shapes != {n: v.shape for n, v in own.items()}:
            raise OptionError(
                f"--from {self.head.path} is not of the form that is trained for {mine.target}: "
                "begin with nothing, leave out --from"
            )
        with torch.no_grad():
            for name, parameter in form.head.named_parameters():
                parameter.copy_(torch.from_numpy(read[name]))
        return form.head
