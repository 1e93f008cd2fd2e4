"""A head's numbers: `config.json` of a checkpoint in the `speculators` library's form.

    config = HeadConfig.parse(json.loads(text), "head/config.json")
    json.dumps(config.as_json())

The layers' numbers stand there as transformers writes them, where what is left out means the
default of that kind of layer. Beside them forerun writes an object of its own, by which it knows
the target again: others ignore it.

What this module does not know: tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from forerun.errors import CapabilityError, ModelFileError
from forerun.models.native.graph import Rotation

EAGLE3 = "eagle3"

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "llama": {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
        "num_attention_heads": 32, "max_position_embeddings": 2048,
    },
    "qwen3": {
        "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016,
        "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "max_position_embeddings": 32768,
    },
}  # fmt: skip
"""Of transformers' configurations: what is meant where a number is left out."""

_ROPE_TYPES = ("default", "linear", "llama3")


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
    """Llama 3's stretching of positions: slow pairs turn `factor` times slower, quick ones as they
    did (Llama team 2024, released configurations)."""

    factor: float
    low: float
    high: float
    context: int


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """EAGLE-3 (Li et al. 2025, arXiv 2503.01840): of `len(taps)` hidden states of the target one
    feature is made, which decoder layers read beside the embedding of the token behind it.

    `vocabulary` is the target's, with padding; `draft_vocabulary` are the ids that can be drafted.
    `taps` are layers of the target, None where the checkpoint leaves them to who runs it.
    `target` names the target, `fingerprint` is what `Tapped.fingerprint` says of it; "": unknown.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_width: int
    feed_forward: int
    vocabulary: int
    draft_vocabulary: int
    context: int
    epsilon: float = 1e-6
    rotation_base: float = 10_000.0
    rotation_scale: float = 1.0
    llama3: Llama3Scaling | None = None
    kind: str = "llama"
    bias: bool = False  # of the maps to queries, keys and values
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    taps: tuple[int, ...] | None = None
    target: str = ""
    architectures: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def rotation(self) -> Rotation:
        return Rotation(
            base=self.rotation_base,
            width=self.head_width,
            scale=self.rotation_scale,
            factors=None if self.llama3 is None else "rope_freqs.weight",
        )

    def tapped(self, layers: int) -> tuple[int, ...]:
        """Which layers of a target of `layers` are read: as the checkpoint says, else the usual."""
        return (2, layers // 2, layers - 3) if self.taps is None else self.taps

    @classmethod
    def parse(cls, found: Any, where: str) -> HeadConfig:
        """ModelFileError for what is no head's configuration, CapabilityError for one that asks for
        what is not computed here; both begin with `where`."""
        return _Reader(found, where).read()

    def as_json(self) -> dict[str, Any]:
        rope: dict[str, Any] = {"rope_type": "default", "rope_theta": self.rotation_base}
        if self.rotation_scale != 1.0:
            rope |= {"rope_type": "linear", "factor": self.rotation_scale}
        if self.llama3 is not None:
            rope |= {
                "rope_type": "llama3",
                "factor": self.llama3.factor,
                "low_freq_factor": self.llama3.low,
                "high_freq_factor": self.llama3.high,
                "original_max_position_embeddings": self.llama3.context,
            }
        taps = None if self.taps is None else list(self.taps)
        counted = {} if taps is None else {"num_aux_hidden_states": len(taps)}  # vLLM: else 3
        return {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": EAGLE3,
            "speculators_version": "0.9.0",
            "torch_dtype": "float16",
            "draft_vocab_size": self.draft_vocabulary,
            "target_hidden_size": None,
            "norm_before_residual": self.norm_before_residual,
            "norm_before_fc": self.norm_before_fc,
            "fc_norm": self.fc_norm,
            "norm_output": self.norm_output,
            "eagle_aux_hidden_state_layer_ids": taps,
            "transformer_layer_config": {
                "model_type": self.kind,
                "vocab_size": self.vocabulary,
                "hidden_size": self.hidden,
                "intermediate_size": self.feed_forward,
                "num_hidden_layers": 1,
                "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads,
                "head_dim": self.head_width,
                "max_position_embeddings": self.context,
                "rms_norm_eps": self.epsilon,
                "hidden_act": "silu",
                "attention_bias": self.bias,
                "mlp_bias": False,
                "rope_theta": self.rotation_base,  # older readers look for it here
                "rope_parameters": rope,
                "tie_word_embeddings": False,
                **counted,
            },
            "speculators_config": {
                "algorithm": EAGLE3,
                "default_proposal_method": "greedy",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 4}],
                "verifier": {
                    "name_or_path": self.target,
                    "architectures": list(self.architectures),
                },
            },
            "forerun": {"fingerprint": self.fingerprint},
        }


class _Reader:
    """One `config.json`; every number is checked before it is used."""

    def __init__(self, found: Any, where: str) -> None:
        self._where = where
        self._all = self._object(found, "it")
        kind = self._all.get("speculators_model_type")
        if kind is None:
            self._fail("speculators_model_type is missing: not a head in the speculators form")
        if kind != EAGLE3:
            raise CapabilityError(f"{where}: heads of the form {kind!r} are not computed here")
        layer = self._object(self._all.get("transformer_layer_config"), "transformer_layer_config")
        self._kind = layer.get("model_type", "qwen3")
        if self._kind not in _DEFAULTS:
            raise CapabilityError(
                f"{where}: layers of {self._kind!r} are not computed here;"
                f" known: {', '.join(_DEFAULTS)}"
            )
        self._layer = {**_DEFAULTS[self._kind], **layer}

    def read(self) -> HeadConfig:
        layer = self._layer
        if (act := layer.get("hidden_act", "silu")) != "silu":
            raise CapabilityError(f"{self._where}: hidden_act {act!r} is not computed here")
        if layer.get("mlp_bias"):
            raise CapabilityError(f"{self._where}: mlp_bias is not computed here")
        hidden, heads = self._whole(layer, "hidden_size"), self._whole(layer, "num_attention_heads")
        other = self._all.get("target_hidden_size")
        if other not in (None, hidden):
            raise CapabilityError(
                f"{self._where}: a head of {hidden} values on a target of {other} is not computed"
                " here"
            )
        vocabulary = self._whole(layer, "vocab_size")
        rope = self._rope()
        return HeadConfig(
            hidden=hidden,
            heads=heads,
            kv_heads=self._whole(layer, "num_key_value_heads", heads),
            head_width=self._whole(layer, "head_dim", hidden // heads),
            feed_forward=self._whole(layer, "intermediate_size"),
            vocabulary=vocabulary,
            draft_vocabulary=self._whole(self._all, "draft_vocab_size", vocabulary),
            context=self._whole(layer, "max_position_embeddings"),
            epsilon=self._positive(layer, "rms_norm_eps", 1e-6),
            rotation_base=self._positive(rope, "rope_theta", 10_000.0),
            rotation_scale=(
                self._positive(rope, "factor") if rope["rope_type"] == "linear" else 1.0
            ),
            llama3=self._llama3(rope) if rope["rope_type"] == "llama3" else None,
            kind=self._kind,
            bias=bool(layer.get("attention_bias")),
            norm_before_residual=bool(self._all.get("norm_before_residual")),
            norm_before_fc=bool(self._all.get("norm_before_fc")),
            fc_norm=bool(self._all.get("fc_norm")),
            norm_output=bool(self._all.get("norm_output")),
            taps=self._taps(),
            **self._target(),
        )

    def _rope(self) -> dict[str, Any]:
        layer = self._layer
        said = layer.get("rope_parameters") or layer.get("rope_scaling") or {}
        rope = dict(self._object(said, "rope_parameters"))
        if layer.get("rope_theta") is not None:
            rope.setdefault("rope_theta", layer["rope_theta"])
        rope.setdefault("rope_type", rope.get("type", "default"))
        if rope["rope_type"] not in _ROPE_TYPES:
            raise CapabilityError(
                f"{self._where}: rope_type {rope['rope_type']!r} is not computed here"
            )
        return rope

    def _llama3(self, rope: Mapping[str, Any]) -> Llama3Scaling:
        return Llama3Scaling(
            factor=self._positive(rope, "factor"),
            low=self._positive(rope, "low_freq_factor"),
            high=self._positive(rope, "high_freq_factor"),
            context=self._whole(rope, "original_max_position_embeddings"),
        )

    def _taps(self) -> tuple[int, ...] | None:
        ids = self._all.get("eagle_aux_hidden_state_layer_ids")
        if ids is None:
            return None
        if not isinstance(ids, list) or not ids or any(type(i) is not int or i < 0 for i in ids):
            self._fail(f"eagle_aux_hidden_state_layer_ids must be layers, not {ids!r}")
        return tuple(ids)

    def _target(self) -> dict[str, Any]:
        said = self._object(self._all.get("speculators_config") or {}, "speculators_config")
        verifier = self._object(said.get("verifier") or {}, "verifier")
        own = self._object(self._all.get("forerun") or {}, "forerun")
        return {
            "target": str(verifier.get("name_or_path") or ""),
            "architectures": tuple(map(str, verifier.get("architectures") or ())),
            "fingerprint": str(own.get("fingerprint") or ""),
        }

    def _object(self, found: Any, name: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            self._fail(f"{name} must be an object, not {found!r}")
        return found

    def _whole(self, of: Mapping[str, Any], name: str, default: int | None = None) -> int:
        value = default if of.get(name) is None else of[name]
        if type(value) is not int or not 0 < value < 1 << 31:
            self._fail(f"{name} must be a positive whole number, not {value!r}")
        return value

    def _positive(self, of: Mapping[str, Any], name: str, default: float | None = None) -> float:
        value = default if of.get(name) is None else of[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            self._fail(f"{name} must be a positive number, not {value!r}")
        return float(value)

    def _fail(self, what: str) -> NoReturn:
        raise ModelFileError(f"{self._where}: {what}")
