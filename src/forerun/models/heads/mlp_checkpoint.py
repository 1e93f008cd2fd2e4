"""Heads without attention, on disk: folders as `checkpoint.py` has them, in forms of their own.

    hydra      y = f + W_i silu(U_i [f, e(t), e(x_0), …, e(x_{i−1})])   it sees what was drafted
    blockwise  y = f + W_i silu(U_i f)                                  it does not
    medusa     y = f + silu(U_i f)

    logits of head i = lm_head(norm(y))

f is the target's last state of the token before t, of length one as the embeddings e are; t is the
last token of the text. Hydra: Ankner et al. 2024, arXiv 2402.05109. Blockwise parallel decoding:
Stern et al. 2018, section 4 (its ReLU is a SiLU here). Medusa: Cai et al. 2024, arXiv 2401.10774,
section 2.1: only its heads, for its typical acceptance is not exact, and with one output matrix for
all of them, where the paper has one for each.

    heads.{i}.up.weight      [m, in]      hydra: in = (2 + i) · h
    heads.{i}.down.weight    [h, m]       but for medusa, where m = h
    norm.weight              [h]
    lm_head.weight           [D, h]
    d2t, t2d

No library reads these but this one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forerun.errors import ModelFileError
from forerun.models.heads.checkpoint import (
    CONFIG,
    WEIGHTS,
    Array,
    Tensors,
    check_tensors,
    ids_of,
    read_json,
    read_tensors,
    write_files,
)
from forerun.sampling import is_whole

FORMS = ("hydra", "blockwise", "medusa")


@dataclass(frozen=True, kw_only=True)
class MLPConfig:
    """`depths` heads, the i-th of which guesses the i-th drafted token. See `HeadConfig`."""

    form: str
    hidden: int
    width: int  # m
    depths: int
    vocabulary: int
    draft_vocabulary: int
    epsilon: float = 1e-6
    taps: tuple[int, ...]
    target: str = ""
    fingerprint: str = ""

    def reads(self, depth: int) -> int:
        """Vectors of h values that the head of this depth reads."""
        return 2 + depth if self.form == "hydra" else 1

    def shapes(self) -> dict[str, tuple[int, ...]]:
        h = self.hidden
        found: dict[str, tuple[int, ...]] = {
            "norm.weight": (h,),
            "lm_head.weight": (self.draft_vocabulary, h),
        }
        for i in range(self.depths):
            found[f"heads.{i}.up.weight"] = (self.width, self.reads(i) * h)
            if self.form != "medusa":
                found[f"heads.{i}.down.weight"] = (h, self.width)
        return found


@dataclass(frozen=True, kw_only=True)
class MLPHead:
    """A checkpoint in memory: `tensors[name]` is a tensor as float32."""

    path: Path
    config: MLPConfig
    ids: Array  # [D] int64, rising
    tensors: Mapping[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]


def read_mlp_head(folder: str | os.PathLike[str]) -> MLPHead:
    """ModelFileError where it cannot be one, naming file and tensor."""
    folder = Path(folder)
    config = _config(read_json(folder / CONFIG), folder / CONFIG)
    where = folder / WEIGHTS
    tensors = Tensors(read_tensors(where))
    ids = ids_of(where, config, tensors)
    check_tensors(where, tensors, config.shapes())
    found = {name: tensors.floats(name) for name in config.shapes()}
    return MLPHead(path=folder, config=config, ids=ids, tensors=found)


def write_mlp_head(
    folder: str | os.PathLike[str],
    config: MLPConfig,
    tensors: Mapping[str, Array],
    *,
    bits: int = 16,
) -> None:
    """As `write_head`."""
    own = asdict(config)
    own["taps"] = list(config.taps)
    form, fingerprint = own.pop("form"), own.pop("fingerprint")
    said = {
        "speculators_model_type": form,
        **own,
        "forerun": {"fingerprint": fingerprint},
    }
    write_files(Path(folder), said, tensors, bits=bits)


def _config(found: Any, where: Path) -> MLPConfig:
    if not isinstance(found, dict):
        raise ModelFileError(f"{where}: it must be an object, not {found!r}")
    said: dict[str, Any] = {
        "form": found.get("speculators_model_type"),
        "fingerprint": (found.get("forerun") or {}).get("fingerprint", ""),
        **{name: found.get(name) for name in ("taps", "target", "epsilon")},
    }
    if said["form"] not in FORMS:
        raise ModelFileError(f"{where}: {said['form']!r} is none of {', '.join(FORMS)}")
    for name in ("hidden", "width", "depths", "vocabulary", "draft_vocabulary"):
        value: Any = found.get(name)
        said[name] = value
        if not is_whole(value) or not 0 < value < 1 << 31:
            raise ModelFileError(f"{where}: {name} must be a positive whole number, not {value!r}")
    taps = said["taps"]
    if not isinstance(taps, list) or len(taps) != 1 or not is_whole(taps[0]) or taps[0] < 0:
        raise ModelFileError(f"{where}: taps must be one layer in a list, not {taps!r}")
    epsilon: Any = said["epsilon"]
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not epsilon > 0:
        raise ModelFileError(f"{where}: epsilon must be a positive number, not {epsilon!r}")
    if said["form"] == "medusa" and said["width"] != said["hidden"]:
        raise ModelFileError(f"{where}: of medusa, width is hidden")
    return MLPConfig(**(said | {"taps": tuple(taps), "target": str(said["target"] or "")}))
