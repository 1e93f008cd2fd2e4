"""From a folder, or from nothing but the target, to a head on it."""

from __future__ import annotations

from pathlib import Path

from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.heads.checkpoint import read_head
from forerun.models.heads.model import HeadModel
from forerun.models.heads.shipped import shipped


def load_head(head: HeadModel | str | Path | None, target: Model) -> HeadModel:
    """The head in a folder, or itself; None: the one that comes with forerun for this target.

    OptionError where there is none; else what `read_head` and `HeadModel` raise.
    """
    if isinstance(head, HeadModel):
        return head
    folder = shipped(target) if head is None else head
    if folder is None:
        raise OptionError(
            f"no head for {target.name} comes with forerun: give head, the folder of a trained one"
        )
    return HeadModel(read_head(folder), target)
