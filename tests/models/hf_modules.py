"""Tiny transformers modules with random weights, one for each architecture under test.

Weights are several times larger than at initialisation, so that attention matters: a wrong mask or
position then moves logits by far more than rounding.
"""

from __future__ import annotations

import functools

import torch
import transformers as tf

from forerun.models.base import Step

V = 61
SIZES = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
MOE = {"num_local_experts": 4, "num_experts_per_tok": 2}
MLA = {
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "head_dim": 8,
}


def sized(**more):
    return {**SIZES, **more}


def without(*names, **more):
    return {k: v for k, v in sized(**more).items() if k not in names}


# name -> (config class, options, attention)
ARCHITECTURES = {
    "llama": (tf.LlamaConfig, sized(), "sdpa"),
    "llama-eager": (tf.LlamaConfig, sized(), "eager"),
    "mistral": (tf.MistralConfig, sized(sliding_window=5, head_dim=8), "sdpa"),
    "gemma3": (
        tf.Gemma3TextConfig,
        sized(sliding_window=4, head_dim=8, layer_types=MIXED),
        "sdpa",
    ),
    "gemma2": (
        tf.Gemma2Config,
        sized(sliding_window=4, head_dim=8, layer_types=MIXED),
        "eager",
    ),
    "qwen2": (tf.Qwen2Config, sized(), "sdpa"),
    "qwen2-windows": (
        tf.Qwen2Config,
        sized(use_sliding_window=True, sliding_window=3, layer_types=MIXED),
        "sdpa",
    ),
    "qwen3": (tf.Qwen3Config, sized(head_dim=8), "sdpa"),
    "gpt2": (
        tf.GPT2Config,
        {"vocab_size": V, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},
        "sdpa",
    ),
    "gpt_neox": (tf.GPTNeoXConfig, without("num_key_value_heads", rotary_pct=0.5), "sdpa"),
    "phi": (tf.PhiConfig, sized(), "sdpa"),
    "phi3": (tf.Phi3Config, sized(original_max_position_embeddings=128), "sdpa"),
    "opt": (
        tf.OPTConfig,
        without("num_key_value_heads", "intermediate_size", ffn_dim=48, word_embed_proj_dim=32),
        "sdpa",
    ),
    "falcon": (
        tf.FalconConfig,
        without("intermediate_size", "num_key_value_heads", alibi=False, multi_query=True),
        "sdpa",
    ),
    "mixtral": (tf.MixtralConfig, sized(**MOE, head_dim=8), "sdpa"),
    "olmo2": (tf.Olmo2Config, sized(), "sdpa"),
    "granite": (tf.GraniteConfig, sized(logits_scaling=2.0), "sdpa"),
    "starcoder2": (tf.Starcoder2Config, sized(sliding_window=6), "sdpa"),
    "cohere2": (tf.Cohere2Config, sized(sliding_window=4, layer_types=MIXED), "sdpa"),
    "gpt_oss": (
        tf.GptOssConfig,
        sized(sliding_window=4, head_dim=8, layer_types=MIXED, **MOE),
        "eager",
    ),
    "deepseek_v3": (
        tf.DeepseekV3Config,
        sized(
            num_key_value_heads=4,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
            **MLA,
        ),
        "sdpa",
    ),
    "gemma3n": (
        tf.Gemma3nTextConfig,
        sized(
            sliding_window=4,
            head_dim=8,
            num_hidden_layers=4,
            layer_types=["sliding_attention", "full_attention"] * 2,
            num_kv_shared_layers=2,
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=V,
            laurel_rank=4,
            altup_num_inputs=2,
            intermediate_size=48,
            activation_sparsity_pattern=None,
        ),
        "sdpa",
    ),
}
# Attention weights or expert scores go through float32 in these, even where all else is float64.
COARSE = ("llama-eager", "gemma2", "gpt_oss", "deepseek_v3")
# Models whose contract is run in full; the rest live one random life each.
THOROUGH = ("llama", "llama-eager", "mistral", "gemma3", "gpt2", "qwen2-windows")


def module_of(config, attention="sdpa", dtype=torch.float64):
    """A module with random weights, the same each time."""
    config._attn_implementation = attention
    config._experts_implementation = "eager"  # grouped kernels have no float64
    torch.manual_seed(7)
    module = tf.AutoModelForCausalLM.from_config(config).to(dtype).eval()
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim > 1:
                weight.mul_(6)
    return module


def rounding(name):
    """Largest difference between logits of order 1 that is rounding, in a float64 module."""
    return 1e-5 if name in COARSE else 1e-10


@functools.cache
def module(name, dtype=torch.float64):
    kind, options, attention = ARCHITECTURES[name]
    return module_of(kind(**options), attention, dtype)


TEXT = [5, 9, 2, 30, 11, 7]


def own(module):
    with torch.no_grad():
        return module(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0]


def rows(model):
    return model.extend([Step(slot=model.open(), tokens=TEXT)])[0]
