from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from forerun.errors import CapabilityError, ModelFileError
from forerun.models.heads.checkpoint import CONFIG, SCALE, WEIGHTS, read_head, shapes, write_head
from forerun.models.heads.config import HeadConfig, Llama3Scaling
from models.heads.tiny_heads import tiny_config, tiny_tensors

SCALED = Llama3Scaling(factor=8.0, low=1.0, high=4.0, context=64)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "qwen3", "bias": True, "norm_before_residual": True, "norm_output": True},
        {"fc_norm": True, "taps": (1, 2), "rotation_scale": 2.0},
        {"norm_before_fc": True, "taps": None, "llama3": SCALED, "fingerprint": "ab"},
        {"draft_vocabulary": 50},
    ],
)
@pytest.mark.parametrize("bits", [8, 16])
def test_what_was_written_is_read(tmp_path: Path, changes: dict[str, Any], bits: int) -> None:
    config = tiny_config(**changes)
    tensors = tiny_tensors(config)
    write_head(tmp_path, config, tensors, bits=bits)
    head = read_head(tmp_path)
    assert head.config == config
    assert head.layers == 1
    for name in shapes(config, 1, 3 if config.taps is None else len(config.taps)):
        error = np.abs(head[name] - tensors[name])
        within = 0.006 if bits == 8 and tensors[name].ndim == 2 else 0.001
        assert (error <= within * np.abs(tensors[name]).max()).all()
        assert head[name].dtype == np.float32
    expected = np.flatnonzero(tensors["t2d"]) if "t2d" in tensors else np.arange(50)
    np.testing.assert_array_equal(head.ids, expected)
    assert {file.name for file in tmp_path.iterdir()} == {CONFIG, WEIGHTS}


@pytest.mark.parametrize("bits", [8, 16])
def test_a_head_in_8_bits_says_so_to_others(tmp_path: Path, bits: int) -> None:
    """vLLM takes `…weight_scale` only where the configuration names such a scheme."""
    config = tiny_config()
    write_head(tmp_path, config, tiny_tensors(config), bits=bits)
    said = json.loads((tmp_path / CONFIG).read_text()).get("quantization_config")
    stored = safetensors.numpy.load_file(tmp_path / WEIGHTS)
    matrices = {name for name, values in stored.items() if values.dtype == np.int8}
    scales = {name: values.shape for name, values in stored.items() if name.endswith(SCALE)}
    assert scales == {name + SCALE: (len(stored[name]), 1) for name in matrices}
    assert (said is None) == (not matrices) == (bits == 16)
    if said is not None:
        (group,) = said["config_groups"].values()
        assert (said["quant_method"], said["format"]) == ("compressed-tensors", "int-quantized")
        assert (group["weights"]["num_bits"], group["weights"]["strategy"]) == (8, "channel")
        covered = [name for name in matrices if "_proj" in name or name == "fc.weight"]
        assert matrices - set(covered) == {"lm_head.weight"}  # named beside "Linear"
        assert group["targets"] == ["Linear", "re:.*lm_head"]


@pytest.mark.parametrize("taps", [(1, 2), (0, 1, 2, 3), None])
def test_how_many_states_are_read_is_said_where_vllm_looks(taps: tuple[int, ...] | None) -> None:
    """It takes the layers' numbers from the head, and makes room for three states all the same."""
    said = tiny_config(taps=taps).as_json()
    assert said["eagle_aux_hidden_state_layer_ids"] == (None if taps is None else list(taps))
    counted = said["transformer_layer_config"].get("num_aux_hidden_states")
    assert counted == (None if taps is None else len(taps))


def test_numbers_left_out_are_transformers_defaults(tmp_path: Path) -> None:
    found = HeadConfig.parse(
        {
            "speculators_model_type": "eagle3",
            "draft_vocab_size": 32000,
            "transformer_layer_config": {"model_type": "llama", "vocab_size": 128256},
        },
        "it",
    )
    assert (found.hidden, found.heads, found.kv_heads, found.head_width) == (4096, 32, 32, 128)
    assert (found.feed_forward, found.context, found.taps) == (11008, 2048, None)
    assert found.tapped(32) == (2, 16, 29)


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *above, last = path.split(".")
    within = config
    for name in above:
        within = within[name]
    within[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("speculators_model_type", None, "speculators_model_type is missing"),
        ("speculators_model_type", "mtp", "'mtp'"),
        ("transformer_layer_config", 3, "transformer_layer_config must be an object"),
        ("transformer_layer_config.model_type", "gpt2", "'gpt2'"),
        ("transformer_layer_config.hidden_size", -1, "hidden_size must be"),
        ("transformer_layer_config.hidden_size", True, "hidden_size must be"),
        ("transformer_layer_config.hidden_act", "gelu", "hidden_act 'gelu'"),
        ("transformer_layer_config.mlp_bias", True, "mlp_bias"),
        ("transformer_layer_config.rms_norm_eps", "x", "rms_norm_eps must be"),
        ("transformer_layer_config.rope_parameters", {"rope_type": "yarn"}, "'yarn'"),
        ("transformer_layer_config.rope_parameters", {"rope_type": "linear"}, "factor must be"),
        ("target_hidden_size", 128, "on a target of 128"),
        ("eagle_aux_hidden_state_layer_ids", [1, "2"], "must be layers"),
        ("eagle_aux_hidden_state_layer_ids", [-1], "must be layers"),
    ],
)
def test_a_configuration_that_cannot_be(path: str, value: Any, said: str) -> None:
    config = changed(tiny_config().as_json(), path, value)
    with pytest.raises((ModelFileError, CapabilityError), match=said) as caught:
        HeadConfig.parse(config, "head/config.json")
    assert str(caught.value).startswith("head/config.json: ")


def rewritten(folder: Path, **changes: Any) -> None:
    """The same file with other tensors; None leaves one out."""
    tensors = safetensors.numpy.load_file(folder / WEIGHTS)
    for name, values in changes.items():
        if values is None:
            del tensors[name]
        else:
            tensors[name] = values
    safetensors.numpy.save_file(tensors, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fc.weight": None}, "'fc.weight' is missing"),
        ({"fc.weight": np.zeros((64, 64), np.float32)}, r"'fc.weight' is \[64, 64\], where"),
        ({"fc.weight": np.zeros((64, 192), np.int64)}, "not of floats"),
        ({"fc.weight": np.full((64, 192), np.nan, np.float32)}, "no number"),
        ({"fc.weight": np.zeros((64, 192), np.int8)}, "has no scales"),
        ({"fc.weight": np.zeros((64, 192), np.uint32)}, "is of type U32"),
        ({"other.weight": np.zeros(3, np.float32)}, "'other.weight' is not one of"),
        ({"d2t": None, "t2d": None}, "'d2t' is missing"),
        ({"d2t": np.zeros(19, np.int64)}, "'d2t' is int64"),
        ({"d2t": -np.arange(20)}, "leads to no ids, or to one twice"),
        ({"d2t": np.full(20, 40)}, "leads to no ids"),
        ({"t2d": np.zeros(50, np.bool_)}, "do not name the same ids"),
    ],
)
def test_tensors_that_cannot_be(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    config = tiny_config()
    write_head(tmp_path, config, tiny_tensors(config))
    rewritten(tmp_path, **changes)
    with pytest.raises(ModelFileError, match=said) as caught:
        read_head(tmp_path)
    assert str(caught.value).startswith(str(tmp_path))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="not a head's folder"):
        read_head(tmp_path / "nowhere")
    config = tiny_config()
    write_head(tmp_path / "run" / "head", config, tiny_tensors(config))
    with pytest.raises(ModelFileError, match="the run's head is in its folder head"):
        read_head(tmp_path / "run")
    write_head(tmp_path, config, tiny_tensors(config))
    whole = (tmp_path / WEIGHTS).read_bytes()
    for cut in (0, 7, 100, len(whole) // 2):
        (tmp_path / WEIGHTS).write_bytes(whole[:cut])
        with pytest.raises(ModelFileError, match="cut short"):
            read_head(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_head(tmp_path)
    (tmp_path / CONFIG).write_text("{")
    with pytest.raises(ModelFileError, match="no JSON"):
        read_head(tmp_path)
    (tmp_path / CONFIG).write_text(json.dumps([]))
    with pytest.raises(ModelFileError, match="it must be an object"):
        read_head(tmp_path)
