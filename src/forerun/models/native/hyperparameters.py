"""An architecture's numbers from a GGUF file's metadata, each of them checked.

    h = read_hyperparameters(read_gguf("model.gguf"))
    graph = ARCHITECTURES[h.architecture](h)         runs with this file's tensors as they are

A file whose numbers cannot be is a ModelFileError; one that asks for what this backend does not
compute (other architectures, YaRN, experts, soft caps, …) is a CapabilityError that names it. What
is left unsaid means what it means to the files' converters. Rather an error than other logits: an
unknown key about attention or rotation is refused, like a tensor the graph would ignore.

What this module does not know: tensors' values (but for those that divide frequencies), and texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from forerun.errors import CapabilityError, ModelFileError
from forerun.models.gguf import GGUFFile
from forerun.models.native.graph import ARCHITECTURES, Hyperparameters, Rotation
from forerun.models.native.tensors import check_tensors

_FACTORS = "rope_freqs.weight"  # Llama 3's, by which its converter expresses the scaling
_GEMMA3_LOCAL_BASE = 10_000.0
_GEMMA3_PERIOD = 6
_GEMMA3_27B_LAYERS = 62  # the one whose attention scale goes by hidden / heads

_UNSUPPORTED: Mapping[str, str] = {
    "expert_count": "experts",
    "attn_logit_softcapping": "soft-capped attention",
    "final_logit_softcapping": "soft-capped logits",
    "logit_scale": "scaled logits",
    "residual_scale": "scaled residuals",
    "embedding_scale": "embeddings scaled by the file",
    "nextn_predict_layers": "layers that predict further tokens",
    "use_parallel_residual": "parallel residuals",
    "pooling_type": "pooling",
}
"""What a key asks for that is not computed here, unless its value is 0 or false."""

_UNDERSTOOD = frozenset({
    "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.value_length", "attention.layer_norm_rms_epsilon", "attention.scale",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.causal",
    "rope.dimension_count", "rope.freq_base", "rope.scale_linear", "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length", "rope.scaling.finetuned",  # without effect
})  # fmt: skip


def read_hyperparameters(file: GGUFFile) -> Hyperparameters:
    """Numbers of the file's model. ModelFileError or CapabilityError, naming key or tensor."""
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ModelFileError(f"{file.path}: general.architecture is missing: not a model's file")
    if architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise CapabilityError(
            f"{file.path}: architecture {architecture!r} is not run by the native backend "
            f"(those are: {known}); the transformers backend may know it"
        )
    h = _Reader(file, architecture).read()
    check_tensors(file, h)
    return h


class _Reader:
    """One file's metadata, below its architecture's name."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self.file, self.architecture = file, architecture
        start = f"{architecture}."
        self.numbers = {
            key.removeprefix(start): value
            for key, value in file.metadata.items()
            if key.startswith(start)
        }

    def read(self) -> Hyperparameters:
        self.refuse_what_is_not_run()
        layers = self.whole("block_count", most=len(self.file.tensors))
        hidden = self.whole("embedding_length")
        heads = self.whole("attention.head_count")
        kv_heads = self.whole("attention.head_count_kv", heads)
        if heads % kv_heads:
            self.wrong("attention.head_count", f"no multiple of head_count_kv, {kv_heads}")
        if "attention.key_length" not in self.numbers and hidden % heads:
            self.wrong("attention.head_count", f"no divisor of embedding_length, {hidden}")
        head_width = self.whole("attention.key_length", hidden // heads)
        values = self.whole("attention.value_length", hidden // heads)
        if values != head_width:
            self.lacks(f"keys of {head_width} and values of {values}: only equal widths")
        window, period = self.windows(layers)
        return Hyperparameters(
            architecture=self.architecture,
            layers=layers,
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_width=head_width,
            feed_forward=self.whole("feed_forward_length"),
            vocabulary=self.vocabulary(),
            context=self.whole("context_length"),
            epsilon=self.real("attention.layer_norm_rms_epsilon"),
            rotation=self.rotation(head_width),
            local_rotation=None if window is None else self.local_rotation(head_width),
            window=window,
            period=period,
            tied="output.weight" not in self.file.tensors,
            qkv_bias="blk.0.attn_q.bias" in self.file.tensors,
            attention_scale=self.attention_scale(layers, hidden, heads, head_width),
        )

    def refuse_what_is_not_run(self) -> None:
        metadata = self.file.metadata
        if (kind := metadata.get("general.type", "model")) != "model":
            self.lacks(f"general.type {kind!r}: only 'model'")
        if isinstance(parts := metadata.get("split.count", 1), int) and parts > 1:
            self.lacks(f"one of {parts} parts of a model: join them with llama-gguf-split --merge")
        for key, what in _UNSUPPORTED.items():
            if self.numbers.get(key):
                self.lacks(f"{what} ({self.key(key)} = {self.numbers[key]!r})")
        if self.numbers.get("attention.causal", True) is not True:
            self.lacks(f"attention to later tokens ({self.key('attention.causal')} is not true)")
        kind = self.numbers.get("rope.scaling.type", "none")
        if kind not in ("none", "linear"):
            self.lacks(f"rope scaling {kind!r}: only 'linear', and Llama 3's by {_FACTORS}")
        for key, value in self.numbers.items():
            about = key.startswith(("attention.", "rope."))
            if about and not self.understood(key, value):
                self.lacks(f"{self.key(key)} = {value!r}: it may change what the model computes")

    def understood(self, key: str, value: Any) -> bool:
        if key == "rope.freq_base_swa":
            return self.architecture == "gemma3"
        if key == "rope.scaling.attn_factor":
            return bool(value == 1)
        return key in _UNDERSTOOD or not value

    def windows(self, layers: int) -> tuple[int | None, int]:
        """The sliding window of local layers, and the period of global ones."""
        window = self.whole("attention.sliding_window", 0, least=0)
        if not window:
            return None, 1
        if self.architecture not in ("llama", "gemma3"):
            self.lacks(f"a sliding window in {self.architecture} ({window} tokens)")
        every = layers + 1  # no layer is global: Mistral 7B v0.1
        pattern = self.numbers.get("attention.sliding_window_pattern")
        if not isinstance(pattern, list):
            usual = _GEMMA3_PERIOD if self.architecture == "gemma3" else every
            return window, self.whole("attention.sliding_window_pattern", usual)
        for period in range(1, every + 1):
            if [bool(p) for p in pattern] == [(i + 1) % period != 0 for i in range(layers)]:
                return window, period
        self.lacks(f"local and global layers in another order than every n-th global: {pattern}")

    def rotation(self, head_width: int) -> Rotation:
        width = self.whole("rope.dimension_count", head_width, most=head_width)
        if width % 2:
            raise ModelFileError(
                f"{self.file.path}: {width} values of a head should turn, and they turn in pairs "
                f"({self.key('rope.dimension_count')}, else a head's width)"
            )
        needed = self.architecture == "gemma3"  # its base differs from the one taken for granted
        return Rotation(
            base=self.real("rope.freq_base", None if needed else 10_000.0),
            width=width,
            scale=self.stretching(),
            interleaved=self.architecture == "llama",  # its converter reorders q and k so
            factors=self.factors(width),
        )

    def local_rotation(self, head_width: int) -> Rotation:
        """Of layers with a window: those of Gemma 3 have a base of their own, never stretched."""
        rotation = self.rotation(head_width)
        if self.architecture != "gemma3":
            return rotation
        base = self.real("rope.freq_base_swa", _GEMMA3_LOCAL_BASE)
        return Rotation(base=base, width=rotation.width)

    def stretching(self) -> float:
        """How much longer the context is than it was; said by its factor alone in older files."""
        if self.numbers.get("rope.scaling.type") == "none":
            return 1.0
        old = self.real("rope.scale_linear", 0.0, least=0.0)
        return self.real("rope.scaling.factor", old, least=0.0) or 1.0

    def factors(self, width: int) -> str | None:
        tensor = self.file.tensors.get(_FACTORS)
        if tensor is None:
            return None
        if self.architecture != "llama":
            self.lacks(f"{_FACTORS} in {self.architecture}")
        if tensor.type != "F32" or tensor.shape != (width // 2,):
            raise ModelFileError(
                f"{self.file.path}: tensor {_FACTORS!r} is {tensor.type} {list(tensor.shape)}; "
                f"it must be F32 [{width // 2}]"
            )
        values = self.file.data(_FACTORS).view("<f4")
        if not (np.isfinite(values) & (values > 0)).all():
            raise ModelFileError(f"{self.file.path}: tensor {_FACTORS!r} has a factor not above 0")
        return _FACTORS

    def attention_scale(self, layers: int, hidden: int, heads: int, head_width: int) -> float:
        wide = self.architecture == "gemma3" and layers == _GEMMA3_27B_LAYERS
        usual = (hidden / heads if wide else head_width) ** -0.5
        return self.real("attention.scale", 0.0, least=0.0) or usual

    def vocabulary(self) -> int:
        table = self.file.tensors.get("token_embd.weight")
        if table is None or len(table.shape) != 2:
            raise ModelFileError(
                f"{self.file.path}: tensor 'token_embd.weight' is missing or not a table"
            )
        tokens = self.file.metadata.get("tokenizer.ggml.tokens")
        if isinstance(tokens, list) and len(tokens) > table.shape[0]:
            raise ModelFileError(
                f"{self.file.path}: {len(tokens)} tokens but tensor 'token_embd.weight' "
                f"({table.type}) has {table.shape[0]} rows"
            )
        return table.shape[0]

    def whole(
        self, key: str, usual: int | None = None, *, least: int = 1, most: int = 2**31 - 1
    ) -> int:
        """A whole number; a list of one number for each layer counts where all are equal."""
        value: Any = self.numbers.get(key, usual)
        if isinstance(value, list) and value and all(type(v) is int for v in value):
            if len(set(value)) > 1:
                self.lacks(f"layers of different shapes ({self.key(key)} = {value})")
            value = value[0]
        if type(value) is not int or not least <= value <= most:
            limits = f"from {least} to {most}" if most < 2**31 - 1 else f"of at least {least}"
            self.wrong(key, f"no whole number {limits}")
        return int(value)

    def real(self, key: str, usual: float | None = None, *, least: float | None = None) -> float:
        """A finite number: above 0, or at least `least`."""
        value: Any = self.numbers.get(key, usual)
        if type(value) not in (int, float) or not math.isfinite(value):
            self.wrong(key, "no finite number")
        if value <= 0 if least is None else value < least:
            self.wrong(key, "not above 0" if least is None else f"below {least:g}")
        return float(value)

    def key(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def wrong(self, key: str, why: str) -> NoReturn:
        if key not in self.numbers:
            raise ModelFileError(f"{self.file.path}: {self.key(key)} is missing")
        value: Any = self.numbers[key]
        raise ModelFileError(f"{self.file.path}: {self.key(key)} is {value!r}, {why}")

    def lacks(self, what: str) -> NoReturn:
        raise CapabilityError(f"{self.file.path}: the native backend does not run {what}")
