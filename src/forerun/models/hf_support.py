"""Which transformers models can be served exactly, and what their layers attend to.

A module is refused, with the reason, when its state cannot roll back (recurrent and convolutional
layers), when it has an encoder, when it takes positions from a padding mask (alibi), or when its
attention kernels take no explicit masks. What this list forgets, `hf_check` finds by comparison.

What this module does not know: slots, caches, numbers.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

import torch

from forerun.errors import CapabilityError
from forerun.models.hf_masks import Layout

ATTENTIONS = ("sdpa", "eager")
CACHE_NAMES = ("cache", "past_key_values")  # transformers 5.24 renamed its argument
MASKED_LAYERS = ("full_attention", "sliding_attention", "chunked_attention")
PLAIN_LAYERS = ("moe", "mlp", "dense", "sparse")  # no attention, and nothing remembered
STATEFUL_LAYERS = ("linear_attention", "conv", "hybrid", "hybrid_sliding", "mamba", "recurrent")
# Class names of layers that carry a running state, for models whose config does not say so.
STATEFUL_CLASS = re.compile(
    r"Mamba|Rwkv|SSM|StateSpace|Recurrent|RgLru|DeltaNet|KimiDelta|LightningAttention|LinearAttention"
    r"|[ms]LSTM|ShortConv|Retention"
)


@dataclass(frozen=True, kw_only=True)
class Attention:
    """What each kind of layer attends to; the masks of a pass are made from this."""

    kinds: frozenset[str]  # of MASKED_LAYERS
    window: int | None
    chunk: int | None
    additive: bool  # eager attention adds its mask to the scores; sdpa takes booleans

    def masks(self, layout: Layout, dtype: torch.dtype) -> torch.Tensor | dict[str, torch.Tensor]:
        """[B, 1, N, T] for a model with one kind of layer, else one for each kind."""
        made = {kind: self._mask(kind, layout, dtype) for kind in sorted(self.kinds)}
        return made if len(made) > 1 else made.popitem()[1]

    def _mask(self, kind: str, layout: Layout, dtype: torch.dtype) -> torch.Tensor:
        visible = layout.visible(
            window=self.window if kind == "sliding_attention" else None,
            chunk=self.chunk if kind == "chunked_attention" else None,
        )
        if not self.additive:
            return visible
        hidden = torch.finfo(dtype).min
        return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(
            ~visible, hidden
        )


def text_config(module: Any) -> Any:
    """The config of the language model, also where it stands inside a larger one."""
    return module.config.get_text_config(decoder=True)


def attention_of(module: Any) -> Attention:
    """What the module's layers attend to. CapabilityError, with the reason, if refused."""
    kind = type(module).__name__
    config = text_config(module)
    if getattr(module.config, "is_encoder_decoder", False):
        raise CapabilityError(f"{kind} has an encoder; only decoder-only models can be served")
    types = _layer_types(config)
    refuse_state(module, types)
    refuse_indices(module, config)
    if getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt"):
        raise CapabilityError(
            f"{kind} uses alibi: its positions come from a padding mask,"
            " which cannot describe slots of different lengths or trees"
        )
    implementation = getattr(config, "_attn_implementation", None)
    if implementation not in ATTENTIONS:
        raise CapabilityError(
            f"{kind} runs {implementation!r} attention, which takes no explicit masks;"
            " set attn_implementation='sdpa' (or 'eager') when loading it"
        )
    return Attention(
        kinds=frozenset(types) - frozenset(PLAIN_LAYERS),
        window=getattr(config, "sliding_window", None),
        chunk=getattr(config, "attention_chunk_size", None),
        additive=implementation == "eager",
    )


@dataclass(frozen=True, kw_only=True)
class Forward:
    """How forward is called: versions name the cache differently, and some know no row limit."""

    cache: str
    limits_rows: bool


def forward_of(module: Any) -> Forward:
    """CapabilityError if forward takes no masks, positions or cache from outside."""
    takes = inspect.signature(module.forward).parameters
    cache = next((name for name in CACHE_NAMES if name in takes), None)
    needed = {"input_ids", "attention_mask", "position_ids"}
    missing = sorted(needed - takes.keys()) + ([] if cache else [CACHE_NAMES[-1]])
    if cache is None or missing:
        raise CapabilityError(
            f"{type(module).__name__}.forward takes no {' and no '.join(missing)}"
        )
    return Forward(cache=cache, limits_rows="logits_to_keep" in takes)


def _layer_types(config: Any) -> tuple[str, ...]:
    """One for each layer; where the config lists none, by the rule of transformers' own cache."""
    if types := getattr(config, "layer_types", None):
        return tuple(types)
    one = "full_attention"
    if getattr(config, "sliding_window", None) is not None:
        one = "sliding_attention"
    elif getattr(config, "attention_chunk_size", None) is not None:
        one = "chunked_attention"
    return (one,) * int(config.num_hidden_layers)


def refuse_state(module: Any, types: tuple[str, ...]) -> None:
    """CapabilityError if a layer carries a state that cannot be taken back, or picks its keys."""
    kind = type(module).__name__
    others = [t for t in dict.fromkeys(types) if t not in MASKED_LAYERS + PLAIN_LAYERS]
    states = [t for t in others if t in STATEFUL_LAYERS]
    parts = (part for part in module.modules() if not hasattr(part, "base_model_prefix"))
    names = (type(part).__name__ for part in parts)
    states += dict.fromkeys(name for name in names if STATEFUL_CLASS.search(name))
    if states or getattr(module, "_is_stateful", False):
        found = ", ".join(states[:4]) or "running-state"
        raise CapabilityError(
            f"{kind} has {found} layers, whose state cannot roll back:"
            " rejected tokens could not be taken out of it"
        )
    if others:
        raise CapabilityError(
            f"{kind} has {', '.join(others)} layers, which keep more than keys and values"
            " or choose what they attend to; only full, sliding and chunked attention can be served"
        )


def refuse_indices(module: Any, config: Any) -> None:
    """CapabilityError where a layer counts places in the cache instead of taking our positions.

    These differ only in long texts, so that the comparison in `hf_check` would not see it.
    """
    reason = None
    if config.model_type == "gpt_neo":
        reason = "its local layers build their window from places in the cache"
    elif getattr(config, "attn_temperature_tuning", False) and config.model_type == "llama4_text":
        reason = "attn_temperature_tuning scales queries by their place in the cache"
    if reason:
        raise CapabilityError(
            f"{type(module).__name__}: {reason}, which is wrong for trees and for"
            " slots of different lengths"
        )


def context_of(module: Any, wanted: int | None) -> int | None:
    """Most tokens a slot may hold: what the config allows, or `wanted` if that is less.

    Rotary frequencies of kind `longrope` change for the whole text once it outgrows the original
    length, for tokens cached before and for other slots too; such a model stops at that length.
    """
    config = text_config(module)
    limits = [wanted, getattr(config, "max_position_embeddings", None)]
    ropes = getattr(config, "rope_parameters", None) or {}
    limits += (
        rope.get("original_max_position_embeddings")
        for rope in [ropes, *(r for r in ropes.values() if isinstance(r, dict))]
        if rope.get("rope_type") == "longrope"
    )
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None
