"""A head behind slots, run by the native kernels whatever runs its target.

    model = HeadModel(head, target)
    slot = model.open()
    g = model.feature(target.features(slot_of_target))             # [n, h]
    logits = model.extend([Step(slot=slot, tokens=(7, 4), feed=g[:2])])[0]    # [2, D]
    model.features(slot)                                           # [2, h]: x, for what is drafted

It is a model whose tokens come in pairs with features. A slot holds pairs, one fewer than the text
has tokens: the first token has none before it. D is the draft's vocabulary: `ids` leads to the
target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forerun.models.base import Step
from forerun.models.cores import usable_cores
from forerun.models.features import Floats
from forerun.models.heads.checkpoint import Head
from forerun.models.heads.fit import check_fit, check_same
from forerun.models.heads.graph import EMBEDDING, HeadFile, graph, hyperparameters
from forerun.models.native.model import NativeModel
from forerun.numerics.tree_shape import MOST


class HeadModel(NativeModel):
    """See above.

    threads  None: the target's
    exact    weights as they are in the checkpoint, not in 8 bits; with "numpy" kernels in float64

    CapabilityError for a target that hands out no hidden states, or is not the one that the head
    was trained on: another width, another number of layers, other weights. VocabularyError for one
    with other tokens. All of them name both.
    """

    depths = MOST  # tokens that it can draft, one behind another

    def __init__(
        self,
        head: Head,
        target: Any,
        *,
        threads: int | None = None,
        kernels: str | None = None,
        exact: bool = False,
    ) -> None:
        config = head.config
        self.head = head
        self.file = head.path
        self.name = head.path.name
        self.threads = threads or getattr(target, "threads", None) or usable_cores()
        self.tokenizer = None
        self.eos = frozenset()
        self.generation_defaults = {}
        self.ids = head.ids
        self.vocab_size = config.draft_vocabulary
        check_fit(self.name, config, int(self.ids.max()), target)
        table = target.embeddings()
        self._fingerprint = target.fingerprint
        self.taps = config.tapped(target.layers)
        own = EMBEDDING in head
        self._embedded = self.readable = config.vocabulary if own else table.shape[0]
        file = HeadFile(head, table, exact=exact)
        self._table = file, EMBEDDING
        self._last_norm = file, "norm.weight"
        packed = {} if own or table.packed is None else {EMBEDDING: table.packed}
        h = hyperparameters(head)
        how: dict[str, Any] = {"dtype": np.float64} if exact and kernels == "numpy" else {}
        self._run(file, h, kernels, graph=graph(head), packed=packed, **how)
        self._features.tap((h.layers,))  # the graph does so by itself
        self._norms = [
            head[name]
            for name in ("input_norm.weight", *(f"fc_norm.{i}.weight" for i in range(99)))
            if name in head
        ]

    def fit(self, target: Any) -> Any:
        """`target`, if it is the model that the head was loaded for, or the same once more; else
        what the constructor raises."""
        highest = int(self.ids.max())
        check_same(self.name, self.head.config, highest, self._fingerprint, target)
        return target

    @property
    def cost_key(self) -> str | None:  # type: ignore[override]
        """None for a head that is in no folder: it is measured anew."""
        return super().cost_key if self.file.exists() else None

    def extend(self, steps: Sequence[Step]) -> list[Any]:
        """Logits [wanted, D]. Pairs without a feature, whose time alone is asked for, get zeros."""
        return super().extend(
            [step if step.feed is not None else self._unfed(step) for step in steps]
        )

    def _unfed(self, step: Step) -> Step:
        feed = np.zeros((len(step.tokens), self.head.config.hidden), dtype=np.float32)
        return replace(step, feed=feed)

    def feature(self, states: Any) -> Floats:
        """Of tapped states [n, taps · h] each pair's feature [n, h]."""
        config, n = self.head.config, len(states)
        if self._norms:
            weights = np.concatenate(self._norms)
            parts = states.reshape(n, len(self._norms), -1)
            mean = np.mean(np.square(parts), axis=2, keepdims=True)
            states = (parts / np.sqrt(mean + config.epsilon)).reshape(n, -1) * weights
        return self._runner.times("fc.weight", states)
