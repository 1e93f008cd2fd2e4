"""What the transformers backend refuses, and that its comparison finds what no list knows."""

from __future__ import annotations

import dataclasses
import types

import pytest
import torch
import transformers as tf

from forerun.errors import CapabilityError, OptionError
from forerun.models import hf, hf_masks
from forerun.models.base import Step
from forerun.models.hf import HFModel

from .contract import any_life_of_slots_equals_fresh_slots, tree_rows_equal_their_chains
from .hf_modules import V, module, module_of, sized, without

MAMBA = {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
HYBRID = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
    "head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
ALIBI = "uses alibi: its positions come from a padding mask"
REFUSED = {
    "mamba": (tf.MambaConfig, MAMBA, "MambaMixer layers, whose state cannot roll back"),
    "mamba2": (
        tf.Mamba2Config,
        {**MAMBA, "num_heads": 4, "head_dim": 16, "n_groups": 1},
        "Mamba2Mixer layers, whose state cannot roll back",
    ),
    "rwkv": (
        tf.RwkvConfig,
        {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2},
        "Rwkv.* layers, whose state cannot roll back",
    ),
    "recurrent_gemma": (
        tf.RecurrentGemmaConfig,
        without("intermediate_size", intermediate_size=96, lru_width=32, attention_window_size=8),
        "RecurrentGemma.* layers, whose state cannot roll back",
    ),
    "jamba": (
        tf.JambaConfig,
        sized(num_hidden_layers=8, mamba_d_state=4, use_mamba_kernels=False, num_experts=2),
        "has linear_attention, JambaMamba.* layers, whose state cannot roll back",
    ),
    "qwen3_next": (
        tf.Qwen3NextConfig,
        sized(**HYBRID),
        "has linear_attention, Qwen3NextGatedDeltaNet layers, whose state cannot roll back",
    ),
    "lfm2": (
        tf.Lfm2Config,
        sized(layer_types=["conv", "full_attention", "conv"]),
        "has conv, Lfm2ShortConv layers, whose state cannot roll back",
    ),
    "bloom": (
        tf.BloomConfig,
        {"vocab_size": V, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        ALIBI,
    ),
    "falcon-alibi": (
        tf.FalconConfig,
        without("intermediate_size", "num_key_value_heads", alibi=True),
        ALIBI,
    ),
    "gpt_neo": (
        tf.GPTNeoConfig,
        {
            "vocab_size": V,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
        },
        "its local layers build their window from places in the cache",
    ),
    "llama4-tuned": (
        tf.Llama4TextConfig,
        sized(intermediate_size_mlp=48, head_dim=8, num_local_experts=2, attention_chunk_size=8),
        "attn_temperature_tuning scales queries by their place in the cache",
    ),
    "openai-gpt": (
        tf.OpenAIGPTConfig,
        {"vocab_size": V, "n_embd": 32, "n_layer": 2, "n_head": 4},
        "forward takes no past_key_values",
    ),
    "bert": (
        tf.BertConfig,
        without("num_key_value_heads", is_decoder=False),
        "gives other logits with explicit masks, positions and caches than by itself",
    ),
}
EAGER = ("mamba", "mamba2", "bloom", "gpt_neo", "openai-gpt", "rwkv")


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_reason(name):
    kind, options, message = REFUSED[name]
    attention = "eager" if name in EAGER else "sdpa"
    with pytest.raises(CapabilityError, match=message):
        HFModel(module_of(kind(**options), attention, torch.float32))


def test_chunked_attention_without_tuning_is_served():
    options = sized(
        intermediate_size_mlp=48,
        head_dim=8,
        num_local_experts=2,
        attention_chunk_size=5,
        attn_temperature_tuning=False,
        layer_types=["chunked_attention", "full_attention", "chunked_attention"],
    )
    served = module_of(tf.Llama4TextConfig(**options))
    any_life_of_slots_equals_fresh_slots(lambda: HFModel(served), 1e-9)


def test_an_encoder_is_refused():
    config = tf.T5Config(vocab_size=V, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)
    with pytest.raises(CapabilityError, match="T5ForConditionalGeneration has an encoder"):
        HFModel(tf.T5ForConditionalGeneration(config))


@pytest.mark.parametrize("attention", ["flash_attention_2", "flex_attention"])
def test_attention_without_masks_is_refused(attention):
    config = tf.LlamaConfig(**sized())
    served = module_of(config)
    served.config._attn_implementation_internal = attention
    with pytest.raises(
        CapabilityError, match=f"'{attention}' attention.*attn_implementation='sdpa'"
    ):
        HFModel(served)


def test_not_a_transformers_model():
    with pytest.raises(OptionError, match="a transformers model is needed, not Linear"):
        HFModel(torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"context": 0}, "context must be at least 1, not 0"),
        ({"max_memory": 0}, "max_memory must be"),
    ],
)
def test_options_out_of_range(option, message):
    with pytest.raises(OptionError, match=message):
        HFModel(module("llama"), **option)


def test_context_is_the_smaller_one():
    assert HFModel(module("llama")).context == 128
    assert HFModel(module("llama"), context=50).context == 50
    assert HFModel(module("llama"), context=500).context == 128


def test_longrope_stops_where_its_frequencies_would_change():
    rope = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0] * 4,
        "long_factor": [4.0] * 4,
        "original_max_position_embeddings": 32,
    }
    config = tf.Phi3Config(**sized(rope_parameters=rope, original_max_position_embeddings=32))
    assert HFModel(module_of(config)).context == 32


def test_windows_are_as_before_after_the_comparison():
    model = HFModel(module("gemma3"))
    assert model.module.config.sliding_window == 4
    assert model._attention.window == 4


def test_training_mode_ends():
    served = module_of(tf.GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4))
    served.train()  # dropout would make every pass another one
    assert not HFModel(served).module.training


def faulty(change):
    """llama, its forward seeing something else than it was given."""
    served = module_of(tf.LlamaConfig(**sized()))
    right = served.forward

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, cache=None, **rest):
        given = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
        }
        if cache is not None:
            given = change(given)
        return right(**given, cache=cache, **rest)

    served.forward = types.MethodType(forward, served)
    return served


@pytest.mark.parametrize(
    "change",
    [
        lambda given: {**given, "position_ids": torch.zeros_like(given["position_ids"])},
        lambda given: {**given, "attention_mask": torch.ones_like(given["attention_mask"])},
        lambda given: {**given, "attention_mask": None, "position_ids": None},
    ],
    ids=["no-positions", "no-mask", "own-mask"],
)
def test_the_comparison_finds(change):
    HFModel(faulty(lambda given: given))
    with pytest.raises(CapabilityError, match="gives other logits"):
        HFModel(faulty(change))


def by_index(layout):
    """Positions as if the tree were a chain."""
    total, width = layout.total, layout.width
    chain = torch.stack(
        [torch.arange(b + n - width, b + n) for b, n in zip(layout.before, layout.counts)]
    )
    keys = torch.arange(total).repeat(len(layout.slots), 1)
    return dataclasses.replace(layout, positions_BN=chain.clamp(min=0), key_positions_BT=keys)


def sees_siblings(layout):
    seen = layout.ancestors_BNT.clone()
    for row, (start, count) in enumerate(zip(layout.before, layout.counts)):
        seen[row, -count:, start : start + count] |= torch.ones(
            count, count, dtype=torch.bool
        ).tril()
    return dataclasses.replace(layout, ancestors_BNT=seen)


def window_by_index(layout):
    keys = torch.arange(layout.total).repeat(len(layout.slots), 1)
    return dataclasses.replace(layout, key_positions_BT=keys)


@pytest.mark.parametrize("fault", [by_index, sees_siblings, window_by_index])
def test_faults_in_the_layout_are_found(fault, monkeypatch):
    """By the comparison when the model is wrapped, and by the contract had it been let through."""
    right = hf_masks.lay_out
    monkeypatch.setattr(hf, "lay_out", lambda *args: fault(right(*args)))
    with pytest.raises(CapabilityError, match="gives other logits"):
        HFModel(module("gemma3"))
    monkeypatch.setattr(hf, "check", lambda model, limit: None)
    with pytest.raises(AssertionError):
        tree_rows_equal_their_chains(lambda: HFModel(module("gemma3")), 1e-9)


def test_the_picture_in_the_docstring():
    """x y cached, then a with children b and c."""
    step = Step(slot=0, tokens=(5, 6, 7), parents=(-1, 0, 0))
    layout = hf_masks.lay_out([step], [2], torch.device("cpu"))
    assert layout.positions_BN.tolist() == [[2, 3, 3]]
    assert layout.key_positions_BT.tolist() == [[0, 1, 2, 3, 3]]
    assert layout.visible()[0, 0].int().tolist() == [
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 0, 1],
    ]
    assert layout.visible(window=2)[0, 0].int().tolist() == [
        [0, 1, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 1, 0, 1],
    ]
    assert layout.visible(chunk=3)[0, 0].int().tolist() == [
        [1, 1, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


def test_padding_sees_one_key_of_its_own_slot():
    steps = [Step(slot=0, tokens=(5,)), Step(slot=1, tokens=(6, 7, 8))]
    layout = hf_masks.lay_out(steps, [4, 0], torch.device("cpu"))
    for masks in (layout.visible(), layout.visible(window=1), layout.visible(chunk=2)):
        assert masks[0, 0, :2].int().tolist() == [[1, 0, 0, 0, 0]] * 2
    assert layout.tokens_BN.tolist() == [[0, 0, 5], [6, 7, 8]]
    assert not layout.ancestors_BNT[0, :2].any()
