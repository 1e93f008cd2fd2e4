"""From a folder, or from nothing but the target, to a head on it."""

from __future__ import annotations

from pathlib import Path

from forerun.errors import OptionError
from forerun.models.base import Model
from forerun.models.heads.checkpoint import CONFIG, Head, read_head, read_json
from forerun.models.heads.mlp_checkpoint import FORMS, MLPHead, read_mlp_head
from forerun.models.heads.mlp_model import MLPHeadModel
from forerun.models.heads.model import HeadModel
from forerun.models.heads.shipped import shipped

AnyHead = HeadModel | MLPHeadModel


def load_head(head: AnyHead | str | Path | None, target: Model) -> AnyHead:
    """The head in a folder, or itself; None: the one that comes with forerun for this target.

    OptionError where there is none; else what `read_head` and `HeadModel` raise.
    """
    if isinstance(head, AnyHead):
        return head
    folder = shipped(target) if head is None else head
    if folder is None:
        raise OptionError(
            f"no head for {target.name} comes with forerun: give head, the folder of a trained one"
        )
    found = read_any(folder)
    if isinstance(found, MLPHead):
        return MLPHeadModel(found, target)
    return HeadModel(found, target)


def read_any(folder: str | Path) -> Head | MLPHead:
    """The head in a folder, of whatever form. Raises what `read_head` raises."""
    config = read_json(Path(folder) / CONFIG)
    if isinstance(config, dict) and config.get("speculators_model_type") in FORMS:
        return read_mlp_head(folder)
    return read_head(folder)
