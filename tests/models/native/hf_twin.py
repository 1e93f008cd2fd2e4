"""The transformers module a GGUF file was made from: its weights loaded by hand.

What the files' converter did is undone: q and k of llama lie reordered in a file, so that pairs
that turn together are neighbours, and Gemma 3's norms hold one plus the weight.

`exactly()` lets transformers compute in float64 throughout, also where its code says float32
(norms, rotary tables): then two implementations may differ by 1e-12, and no bug hides in rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf

from forerun.models.gguf import GGUFFile, read_gguf
from forerun.models.native.dequantise import dequantise

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
MODULES: dict[str, tuple[type, type]] = {
    "llama": (tf.LlamaConfig, tf.LlamaForCausalLM),
    "mistral": (tf.MistralConfig, tf.MistralForCausalLM),
    "qwen2": (tf.Qwen2Config, tf.Qwen2ForCausalLM),
    "qwen3": (tf.Qwen3Config, tf.Qwen3ForCausalLM),
    "gemma3": (tf.Gemma3TextConfig, tf.Gemma3ForCausalLM),
}


@contextlib.contextmanager
def exactly() -> Iterator[None]:
    """Within it, what transformers calls float32 is float64."""
    before, float_ = (torch.float, torch.float32, torch.get_default_dtype()), torch.Tensor.float
    torch.float = torch.float32 = torch.float64  # type: ignore[misc]
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float, torch.float32 = before[:2]  # type: ignore[misc]
        torch.Tensor.float = float_  # type: ignore[method-assign]
        torch.set_default_dtype(before[2])


def twin(path: Path, **config: Any) -> Any:
    """The module with the file's weights, in torch's default dtype. Keywords go to its config."""
    file = read_gguf(path)
    kind = file.metadata["general.architecture"]
    if kind == "llama" and "llama.attention.sliding_window" in file.metadata:
        kind = "mistral"
    config_class, module_class = MODULES[kind]
    module = module_class(config_class(**_sizes(file, kind) | config)).eval()
    weights = {_name(name, kind): _values(file, name, kind) for name in file.tensors}
    weights.pop("rope_freqs.weight", None)
    lacking, unknown = module.load_state_dict(weights, strict=False)
    assert not unknown
    for name in lacking:  # a file's q, k, v may have biases where its output has none
        assert name == "lm_head.weight" or name.endswith("o_proj.bias"), name
        if name.endswith("o_proj.bias"):
            torch.nn.init.zeros_(module.get_parameter(name))
    return module


@torch.no_grad()
def states(module: Any, tokens: Sequence[int]) -> list[np.ndarray]:
    """[len(tokens), hidden] behind 0 layers, 1, …; the last are normed."""
    ids = torch.tensor([list(tokens)])
    found = module(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
    return [rows[0].numpy() for rows in found]


@torch.no_grad()
def rows(module: Any, tokens: Sequence[int]) -> np.ndarray:
    """Logits [len(tokens), V] of one text."""
    return module(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0].numpy()


def _sizes(file: GGUFFile, kind: str) -> dict[str, Any]:
    architecture = file.metadata["general.architecture"]

    def number(key: str, usual: Any = None) -> Any:
        return file.metadata.get(f"{architecture}.{key}", usual)

    heads, layers = number("attention.head_count"), number("block_count")
    base = number("rope.freq_base")
    sizes = {
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": number("embedding_length"),
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": number("attention.head_count_kv"),
        "head_dim": number("attention.key_length", number("embedding_length") // heads),
        "max_position_embeddings": number("context_length"),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    if kind == "mistral":
        sizes["sliding_window"] = number("attention.sliding_window")
    if kind == "gemma3":
        period = number("attention.sliding_window_pattern", 6)
        local = [(i + 1) % period != 0 for i in range(layers)]
        sizes |= {
            "sliding_window": number("attention.sliding_window"),
            "layer_types": ["sliding_attention" if each else "full_attention" for each in local],
            "query_pre_attn_scalar": sizes["head_dim"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": base},
                "sliding_attention": {
                    "rope_type": "default",
                    "rope_theta": number("rope.freq_base_swa", 10_000.0),
                },
            },
        }
    return sizes


def _name(name: str, kind: str) -> str:
    whole = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    if not name.startswith("blk."):
        return whole.get(name, name)
    _, i, part, end = name.split(".")
    before_ffn = "pre_feedforward_layernorm" if kind == "gemma3" else "post_attention_layernorm"
    return f"model.layers.{i}.{(NAMES | {'ffn_norm': before_ffn})[part]}.{end}"


def _values(file: GGUFFile, name: str, kind: str) -> torch.Tensor:
    tensor = file.tensors[name]
    values = dequantise(file.data(name), tensor.type).reshape(tensor.shape).astype(np.float64)
    if kind == "gemma3" and name.endswith("norm.weight"):
        values = values - 1
    if kind in ("llama", "mistral") and (".attn_q." in name or ".attn_k." in name):
        key = "head_count" if ".attn_q." in name else "head_count_kv"
        heads = file.metadata[f"llama.attention.{key}"]
        pairs = values.reshape(heads, -1, 2, *values.shape[1:])  # neighbours turn together …
        values = pairs.swapaxes(1, 2).reshape(values.shape)  # … here i and i + width / 2 do
    return torch.tensor(values, dtype=torch.get_default_dtype())
