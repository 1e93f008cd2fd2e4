"""Any decoder-only transformers model behind slots: the wide backend.

    model = HFModel.load("path/or/hub-id", dtype="bfloat16")
    model = HFModel(module)                                    # a transformers module, as it is

One forward pass takes steps of many slots: `hf_masks` lays them out (positions by depth, explicit
masks), `hf_cache` holds keys and values (preallocated, full keys, absolute roll back), `hf_support`
says which modules cannot be served, and `hf_check` compares the path that serves with the module's
own plain forward before the first token.

Shapes: B steps, N columns, V vocabulary, W wanted rows.

What this module does not know: laws, proposals, text. That a row's rounding does not depend on its
company is not promised either; it depends on the libraries below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forerun.errors import MissingExtraError, OptionError
from forerun.models.base import (
    Abilities,
    Pages,
    Step,
    check_limits,
    check_restored,
    checked_layers,
    ending_ids,
)
from forerun.models.cost import identity
from forerun.models.features import Featured, Features, Table, fingerprint

try:
    import torch
    import transformers
except ModuleNotFoundError as error:
    raise MissingExtraError.of("torch and transformers", "hf", "a transformers model") from error

from forerun.models.hf_cache import SlotCache
from forerun.models.hf_check import check
from forerun.models.hf_load import load_module
from forerun.models.hf_masks import lay_out
from forerun.models.hf_skip import layers_of
from forerun.models.hf_support import attention_of, context_of, forward_of, text_config
from forerun.models.load import checked_threads
from forerun.models.slots import Slots

if TYPE_CHECKING:
    from typing import Self


class HFModel(Featured):
    """A `Model` from a transformers module.

    module      a decoder-only language model; put in eval mode, otherwise left as it is
    tokenizer   has `vocab_size` and `eos`; None for a model that knows only ids
    name        default: the end of the config's path, or the architecture
    eos         ids that end a text; default: the tokenizer's, else the config's
    context     most tokens a slot can hold, if fewer than the config allows
    max_memory  most bytes of cached keys and values; None: no limit
    generation_defaults   recommended sampling; default: the module's generation config

    CapabilityError where the module cannot be served exactly, saying why; OptionError where
    `max_memory` has no room for one token, saying how much would have.
    """

    cost_key: str | None = None  # see models/cost.py; a module made by hand has no name to go by

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        tokenizer: Any = None,
        name: str | None = None,
        eos: int | Iterable[int] | None = None,
        context: int | None = None,
        max_memory: int | None = None,
        generation_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(module, transformers.PreTrainedModel):
            raise OptionError(f"a transformers model is needed, not {type(module).__name__}")
        check_limits(context, max_memory)
        module.eval()
        config = text_config(module)
        self._module = module
        self._attention = attention_of(module)
        self._call = forward_of(module)
        self._embedded = int(config.vocab_size)
        self.tokenizer = tokenizer
        self._recommended = generation_defaults
        self.vocab_size = self._embedded
        if tokenizer is not None:
            self.vocab_size = min(self._embedded, int(tokenizer.vocab_size))
        path = Path(str(getattr(module.config, "name_or_path", "") or ""))
        self.name = name or path.name or str(config.model_type)
        self.eos = self._ending(eos)
        self.context: int | None = None  # as asked for only after the check, which has slots too
        self._layers = layers_of(module, config)
        self.abilities = Abilities(features=True, skips=self._layers is not None)
        self._features = Features(config.hidden_size, config.num_hidden_layers)
        self._slots = Slots()
        self._cache = SlotCache(config.num_hidden_layers)
        with nullcontext() if self._layers is None else self._layers.learn():
            check(self, context_of(module, None))
        self.context = context_of(module, context)
        one = self._cache.bytes_per_position
        if max_memory is not None and max_memory < one:
            raise OptionError(
                f"max_memory must be at least {one:,} bytes, the cache of one token,"
                f" not {max_memory:,}"
            )
        self._cache = SlotCache(
            config.num_hidden_layers,
            shapes=self._cache.shapes,
            max_memory=max_memory,
            context=self.context,
        )

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        dtype: str = "float32",
        device: str = "cpu",
        tokenizer: Any = None,
        name: str | None = None,
        eos: int | Iterable[int] | None = None,
        context: int | None = None,
        max_memory: int | None = None,
        generation_defaults: Mapping[str, Any] | None = None,
        threads: int | None = None,
        cache_dir: Path | None = None,
        share_weights: bool = False,
    ) -> Self:
        """From a folder, a hub id, or a GGUF file. Weights are always this process's own.

        `dtype` is float32, bfloat16 or float64. `threads` sets torch's number of threads, for the
        whole process: at most 256, or one for each processor. A GGUF file is converted once, into
        `cache_dir` (the user's cache), and quick to load from then on. ModelFileError for a corrupt
        file or folder, FetchError where a hub id cannot be fetched.
        """
        del share_weights
        checked_threads(threads)
        if threads is not None:
            torch.set_num_threads(threads)
        module = load_module(source, dtype=dtype, device=device, cache_dir=cache_dir)
        model = cls(
            module,
            tokenizer=tokenizer,
            name=name or Path(str(source)).name.removesuffix(".gguf"),
            eos=eos,
            context=context,
            max_memory=max_memory,
            generation_defaults=generation_defaults,
        )
        versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
        how = f"{dtype} on {device}, {torch.get_num_threads()} threads, {versions}"
        model.cost_key = f"{identity(source)}: {how}"
        return model

    def _ending(self, eos: int | Iterable[int] | None) -> frozenset[int]:
        """Ids that end a text: as given, else the tokenizer's, else the configs'."""
        known: Any = None if self.tokenizer is None else self.tokenizer.eos or None
        generation = getattr(self._module, "generation_config", None)
        for config in (generation, self._module.config, text_config(self._module)):
            if known is None:
                known = getattr(config, "eos_token_id", None)
        return ending_ids(eos, known, self.vocab_size)

    @property
    def generation_defaults(self) -> dict[str, Any]:
        """Sampling keywords that the model's authors recommend; {} where they say nothing."""
        config = getattr(self._module, "generation_config", None)
        if self._recommended is not None or not getattr(config, "do_sample", False):
            return dict(self._recommended or {})
        names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
        found = {name: getattr(config, name, None) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def module(self) -> transformers.PreTrainedModel:
        return self._module

    @property
    def cache_bytes(self) -> int:
        """Bytes the cached keys and values take now."""
        return self._cache.bytes

    def open(self) -> int:
        return self._slots.open(self._reserve)

    @torch.inference_mode()
    def _reserve(self, wanted: Mapping[int, int]) -> None:
        """Room for the slots of `wanted` to be so long, beside the others as they are."""
        self._cache.reserve({slot: self.length(slot) for slot in self._slots} | dict(wanted))

    def close(self, slot: int) -> None:
        self._slots.close(slot)
        self._features.forget(slot)

    def length(self, slot: int) -> int:
        return self._slots.length(slot)

    def extend(self, steps: Sequence[Step]) -> list[torch.Tensor]:
        """One pass; for each step logits [wanted, V] on the module's device.

        float32, or float64 for a float64 module. PromptError for ids that are out of range,
        CacheError where a slot would outgrow its context or all slots the memory; then nothing
        changed.
        """
        return self._read(steps, featured=bool(self._features.layers))

    def skim(self, steps: Sequence[Step], skipped: Collection[int]) -> list[torch.Tensor]:
        checked_layers(skipped, self.layers)
        assert self._layers is not None  # `abilities.skips` says so
        with self._layers.without(skipped):
            return self._read(steps, featured=False)

    def _read(self, steps: Sequence[Step], *, featured: bool) -> list[torch.Tensor]:
        """One pass; `featured`: of which features are recorded."""
        for step in steps:
            self._slots.check(step, self.context, self._embedded)
        asked = [step for step in steps if len(step.tokens)]
        rows: dict[int, torch.Tensor] = {}
        if asked:
            self._reserve({s.slot: self.length(s.slot) + len(s.tokens) for s in asked})
            asked.sort(key=lambda step: self._cache.row(step.slot))
            logits_BWV, states_BNF = self._forward(asked, featured)
            dtype = torch.promote_types(logits_BWV.dtype, torch.float32)
            for row, step in enumerate(asked):  # copies: ordinary tensors, free of the padding
                wanted = logits_BWV[row, logits_BWV.shape[1] - step.wanted :, : self.vocab_size]
                rows[step.slot] = wanted.to(dtype, copy=True)
                if states_BNF is not None:
                    own = states_BNF[row, states_BNF.shape[1] - len(step.tokens) :]
                    self._features.record(step.slot, self.length(step.slot), own.numpy())
        for step in steps:
            self._slots.record(step)
        empty = torch.empty(0, self.vocab_size, device=self._module.device)
        return [rows.get(step.slot, empty) for step in steps]

    @torch.inference_mode()
    def _forward(
        self, steps: Sequence[Step], featured: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Logits [B, W, V] of one pass, W the most rows a step wants, and features [B, N, F] if
        `featured`; caches keys and values."""
        layout = lay_out(steps, [self.length(s.slot) for s in steps], self._module.device)
        self._cache.begin(layout, self._module.device)
        most = max(step.wanted for step in steps)
        # 0 would mean all rows, so no rows is an empty index.
        keep = most or torch.empty(0, dtype=torch.int64, device=self._module.device)
        out = self._module(
            input_ids=layout.tokens_BN,
            attention_mask=self._attention.masks(layout, self._module.dtype),
            position_ids=layout.positions_BN,
            use_cache=True,
            **{self._call.cache: self._cache},
            **({"logits_to_keep": keep} if self._call.limits_rows else {}),
            **({"output_hidden_states": True} if featured else {}),
        )
        self._cache.finish(layout)
        logits_BWV: torch.Tensor = out.logits
        states = None
        if featured:
            parts = [out.hidden_states[n] for n in self._features.layers]
            states = torch.cat(parts, dim=-1).to("cpu", torch.float32)
        return logits_BWV[:, logits_BWV.shape[1] - most :], states

    def embeddings(self) -> Table:
        weight = self._module.get_input_embeddings().weight.detach().to("cpu", torch.float32)
        values = weight.numpy()
        return Table(kind="F32", shape=values.shape, data=values.reshape(-1).view(np.uint8))

    @property
    def fingerprint(self) -> str:
        norm = getattr(self._module.get_decoder(), "norm", None)
        weight = getattr(norm, "weight", None)
        last = None if weight is None else weight.detach().to("cpu", torch.float32).numpy()
        return fingerprint(last, self.tokenizer)

    def keep(self, slot: int, length: int, path: Sequence[int] | None = None) -> None:
        before = self._slots.before(slot, length, path)
        if path is not None:
            with torch.inference_mode():
                self._cache.move(slot, before, path)
        self._features.keep(slot, length, path)
        self._slots.settle(slot, length)

    def fits(self, lengths: Sequence[int]) -> bool:
        longest = max(lengths, default=0)
        if self.context is not None and longest > self.context:
            return False
        return self._cache.allows(len(lengths), max(longest, 1))

    @torch.inference_mode()
    def save(self, slot: int, start: int, stop: int) -> Pages:
        """See `Model`; the copy stays on the devices of the layers."""
        self._slots.check_saved(slot, start, stop)
        cells = self._cache.save(slot, start, stop)
        features = self._features.save(slot, start, stop)
        return Pages(
            model=self,
            start=start,
            stop=stop,
            nbytes=sum(tensor.nbytes for tensor in cells) + features.nbytes,
            sound=all(bool(tensor.isfinite().all()) for tensor in cells),
            cells=cells,
            features=features,
        )

    @torch.inference_mode()
    def restore(self, slot: int, pages: Pages, count: int) -> None:
        check_restored(self, slot, pages, count)
        end = pages.start + count
        self._reserve({slot: end})
        self._cache.restore(slot, pages.start, count, pages.cells)
        self._features.restore(slot, pages.start, count, pages.features)
        self._slots.settle(slot, end)
