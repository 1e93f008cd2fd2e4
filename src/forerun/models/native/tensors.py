"""The tensors a graph needs, and whether a file has just those.

A missing tensor, one of another shape, and one more than the graph uses are all errors: the logits
would be other ones than the model's.

What this module does not know: the numbers in the tensors.
"""

from __future__ import annotations

import re

from forerun.errors import CapabilityError, ModelFileError
from forerun.models.gguf import GGUFFile, TensorInfo
from forerun.models.native.dequantise import TYPES
from forerun.models.native.graph import (
    ARCHITECTURES,
    Attend,
    Embed,
    Gated,
    Graph,
    Hyperparameters,
    Linear,
    Norm,
    widths,
)

_VECTOR_TYPES = ("F32", "F16", "BF16")
# Frequencies once saved beside the model: they are computed, or read where the numbers are.
_WITHOUT_EFFECT = re.compile(r"rope_freqs\.weight|blk\.\d+\.attn_rot_embd(\.weight)?")


def needed_tensors(graph: Graph, h: Hyperparameters) -> dict[str, tuple[int, ...]]:
    """Shapes by name, [out, in] for matrices, of all tensors the graph reads."""
    wide = widths(h)
    needed: dict[str, tuple[int, ...]] = {}
    for op in graph:
        match op:
            case Embed():
                needed[op.table] = (h.vocabulary, wide[op.out])
            case Norm():
                needed[op.weight] = (wide[op.x],)
            case Linear():
                for weight, bias, out in op.maps:
                    needed[weight] = (wide[out], wide[op.x])
                    if bias is not None:
                        needed[bias] = (wide[out],)
            case Attend():
                for norm in (op.q_norm, op.k_norm):
                    if norm is not None:
                        needed[norm] = (h.head_width,)
            case Gated():
                needed[op.gate] = needed[op.up] = (wide[op.out], wide[op.x])
    return needed


def check_tensors(file: GGUFFile, h: Hyperparameters) -> None:
    """ModelFileError or CapabilityError unless the file has just the tensors of its graph."""
    needed = needed_tensors(ARCHITECTURES[h.architecture](h), h)
    for name, shape in needed.items():
        _check(file, file.tensors.get(name), name, shape)
    for name, tensor in file.tensors.items():
        if name not in needed and not _WITHOUT_EFFECT.fullmatch(name):
            raise CapabilityError(
                f"{file.path}: tensor {name!r} ({tensor.type} {list(tensor.shape)}) has no place "
                f"in the native backend's {h.architecture} of {h.layers} layers"
            )


def _check(file: GGUFFile, tensor: TensorInfo | None, name: str, shape: tuple[int, ...]) -> None:
    if tensor is None:
        raise ModelFileError(f"{file.path}: tensor {name!r} {list(shape)} is missing")
    where = f"{file.path}: tensor {name!r} ({tensor.type})"
    if tensor.shape != shape:
        raise ModelFileError(
            f"{where} has shape {list(tensor.shape)}, but the metadata make it {list(shape)}"
        )
    types = _VECTOR_TYPES if len(shape) == 1 else TYPES
    if tensor.type not in types:
        raise CapabilityError(
            f"{where}: the native backend runs {', '.join(types)} there; "
            "convert the file to one of these"
        )
