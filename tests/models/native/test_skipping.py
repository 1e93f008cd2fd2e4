"""Passes without some layers: a layer that is left out is one that adds nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from forerun import Engine
from forerun.drafters import LayerSkipDrafter
from forerun.models.base import Step
from forerun.models.gguf import read_gguf
from forerun.models.native.graph import ARCHITECTURES, Attend, skipping
from forerun.models.native.hyperparameters import read_hyperparameters
from models.native.small import CASES, PATHS, TEXT, file, load, same_bits

KERNELS = (*PATHS, "numpy")
SHAPES = {"attn_output": (64, 64), "ffn_down": (64, 96)}


def adding_nothing(layers, written):
    """What the layers write, in weights of theirs that are made here or are zero."""
    dice = np.random.default_rng(3)
    found = {}
    for layer in range(4):
        for name, (rows, width) in written.items():
            weights = (2 / width**0.5 * dice.standard_normal((rows, width))).astype(np.float32)
            found[f"blk.{layer}.{name}.weight"] = weights * np.float32(layer not in layers)
    return found


def small(folder, architecture, layers=(), **changes):
    wide = {"heads": 2, "kv_heads": 1, "layers": 4, "head_width": 32}
    tensors = adding_nothing(layers, SHAPES)
    name = f"{architecture}-{'-'.join(map(str, layers))}"
    return file(folder, "llama", **{
        "architecture": architecture, "hidden": 64, "feed_forward": 96, "types": "F32",
        **wide, "tensors": tensors, **changes,
    }).rename(folder / f"{name}.gguf")  # fmt: skip


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_without_a_layer_it_is_the_model_whose_layer_adds_nothing(architecture, kernels, tmp_path):
    whole = load(small(tmp_path, architecture), kernels)
    for layers in ((1,), (1, 2), (0, 3)):
        less = load(small(tmp_path, architecture, layers), kernels)
        slot, other = whole.open(), less.open()
        found = whole.skim([Step(slot=slot, tokens=TEXT[:70])], layers)[0]
        same_bits(found, less.extend([Step(slot=other, tokens=TEXT[:70])])[0])
        assert (found != whole.extend([Step(slot=whole.open(), tokens=TEXT[:70])])[0]).any()


@pytest.mark.parametrize("case", CASES)
def test_the_graph_without_layers(case, tmp_path):
    h = dataclasses.replace(read_hyperparameters(read_gguf(file(tmp_path, case))), layers=5)
    whole = ARCHITECTURES[h.architecture](h)
    less = skipping(whole, {1, 3})
    assert [op.layer for op in less if isinstance(op, Attend)] == [0, 2, 4]
    assert not any("blk.1." in repr(op) or "blk.3." in repr(op) for op in less)
    assert (less[0], less[-2:]) == (whole[0], whole[-2:])
    assert skipping(whole, set()) == whole
    each = len(whole) - len(skipping(whole, {2}))
    assert len(less) == len(whole) - 2 * each


@pytest.mark.parametrize("kernels", KERNELS)
def test_drafting_leaves_the_bits_of_all_that_was_cached(kernels, tmp_path):
    """Pages of the whole text, before and after each round's drafts, in company."""
    model = load(small(tmp_path, "llama"), kernels)
    drafter = LayerSkipDrafter([1, 2])
    seen = []

    class Watched(LayerSkipDrafter):
        def propose(self, requests):
            before = {r.slot: model.save(r.slot, 0, len(r.ids) - 1).cells for r in requests}
            found = drafter.propose(requests)
            for r in requests:
                assert model.length(r.slot) == len(r.ids) - 1
                after = model.save(r.slot, 0, len(r.ids) - 1).cells
                np.testing.assert_array_equal(before[r.slot], after)
            seen.extend(map(len, found))
            return found

    drafter.check(model)
    engine = Engine(model, Watched([1, 2]), num_draft=3, max_batch=3)
    asked = [{"seed": i, "max_tokens": 30} for i in range(3)]
    found = engine.generate_batch([list(TEXT[: 60 + i]) for i in range(3)], asked)
    plain = Engine(model).generate_batch([list(TEXT[: 60 + i]) for i in range(3)], asked)
    assert [done.tokens for done in found] == [done.tokens for done in plain]
    assert sum(seen) > 40
    assert sum(done.stats.accepted for done in found) > 0
