"""What of the target a head is made of: its embedding, its output matrix, a layer's numbers.

    target = FrozenTarget.of(model)
    ids = draft_ids(texts, 8192, target.vocabulary, keep=model.eos)
    target.output[ids] @ state                logits of those ids, where `state` is the last one's

Both matrices stay as they are; the second tells the law of the target from its last hidden state,
so that no logits need to be stored. A head's vocabulary are the tokens that answers use most: the
other ones are never drafted, which costs acceptance where the target would say them.

What this module does not know: heads.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from forerun.errors import CapabilityError
from forerun.models.base import Model
from forerun.models.gguf import read_gguf
from forerun.models.native.dequantise import dequantise
from forerun.models.native.graph import Hyperparameters
from forerun.models.native.hyperparameters import read_hyperparameters
from forerun.models.native.model import NativeModel
from forerun.train.texts import Text

Ids = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class FrozenTarget:
    """V ids, padding included; h values in a state."""

    name: str
    digest: str  # of the file
    fingerprint: str  # by which a head knows it again: see `Tapped`
    numbers: Hyperparameters
    embedding: torch.Tensor  # [V, h], bfloat16
    output: torch.Tensor  # [V, h], bfloat16

    @classmethod
    def of(cls, model: Model) -> FrozenTarget:
        """CapabilityError for a model that is not run by the native backend."""
        if not isinstance(model, NativeModel):
            raise CapabilityError(
                f"{model.name}: heads are trained on GGUF files, which the native backend runs"
            )
        file = read_gguf(model.file)
        numbers = read_hyperparameters(file)

        def matrix(name: str) -> torch.Tensor:
            values = dequantise(file.data(name), file.tensors[name].type)
            return torch.from_numpy(values).view(numbers.vocabulary, -1).to(torch.bfloat16)

        embedding = matrix("token_embd.weight")
        return cls(
            name=model.name,
            digest=_digest(model),
            fingerprint=model.fingerprint,
            numbers=numbers,
            embedding=embedding,
            output=embedding if numbers.tied else matrix("output.weight"),
        )

    @property
    def vocabulary(self) -> int:
        return self.numbers.vocabulary


def draft_ids(texts: Iterable[Text], size: int, vocabulary: int, keep: Iterable[int]) -> Ids:
    """The `size` ids that answers use most, rising, those of `keep` among them. [size], or all."""
    counts = Counter(id for text in texts for a, b in text.spans for id in text.ids[a:b])
    first = dict.fromkeys(sorted(keep))
    often = (id for id, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0])))
    order = dict.fromkeys([*first, *often, *range(vocabulary)])
    return np.array(sorted(list(order)[: min(size, vocabulary)]), dtype=np.int64)


def _digest(model: NativeModel) -> str:
    with model.file.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
