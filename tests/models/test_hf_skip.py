"""Leaving layers of transformers modules out, of all kinds; and each as it was afterwards."""

from __future__ import annotations

import pytest
import torch

from forerun import Engine
from forerun.drafters import LayerSkipDrafter
from forerun.errors import CapabilityError
from forerun.models.base import Step
from forerun.models.hf import HFModel

from . import contract
from .hf_modules import ARCHITECTURES, module, rounding

SHARING = {"gemma3n"}  # layers that read what others cached
CHECKS = (
    contract.without_no_layer_it_is_the_model,
    contract.each_layer_that_is_left_out_tells,
    contract.skimming_leaves_no_trace,
    contract.skimming_in_company_equals_alone,
)


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - SHARING))
def test_layers_of_every_architecture(architecture):
    def make(context=None, max_memory=None):
        return HFModel(module(architecture), context=context, max_memory=max_memory)

    assert make().abilities.skips
    for check in CHECKS:
        check(make, rounding(architecture))


@pytest.mark.parametrize("architecture", sorted(SHARING & set(ARCHITECTURES)))
def test_layers_that_none_can_miss(architecture):
    model = HFModel(module(architecture))
    with pytest.raises(CapabilityError, match="cannot leave layers out: the native backend can"):
        Engine(model, LayerSkipDrafter(1))


def test_without_layers_it_is_the_module_with_a_shorter_list():
    served = module("llama")
    model = HFModel(served)
    slot = model.open()
    found = model.skim([Step(slot=slot, tokens=(3, 1, 4, 1))], (1,))[0]
    whole = served.model.layers
    served.model.layers = torch.nn.ModuleList([whole[0], whole[2]])
    try:
        with torch.no_grad():
            ids = torch.tensor([[3, 1, 4, 1]])
            expected = served(input_ids=ids, use_cache=False).logits[0]
    finally:
        served.model.layers = whole
    contract.close(found, expected, rounding("llama"))


def test_layers_come_back_whatever_breaks(monkeypatch):
    served = module("llama")
    model = HFModel(served)
    slot = contract.filled(model)

    def broken(*given, **more):
        assert "forward" in vars(served.model.layers[1])
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(model, "_forward", broken)
        with pytest.raises(RuntimeError, match="broken"):
            model.skim([Step(slot=slot, tokens=(1,))], (1,))
    assert not any("forward" in vars(layer) for layer in served.model.layers)
    served.model.layers[1].forward = own = served.model.layers[1].forward
    try:
        model.skim([Step(slot=slot, tokens=(1,))], (1,))
        assert vars(served.model.layers[1])["forward"] is own
    finally:
        del served.model.layers[1].forward


def test_texts_are_plain_decodings():
    model = HFModel(module("llama"))
    asked = [{"seed": 1}, {"seed": 2, "temperature": 0.5}, {"temperature": 0.0}]
    prompts = [[1, 2, 3], [4], [5, 6]]
    plain = [Engine(model).generate(p, max_tokens=12, **o).tokens for p, o in zip(prompts, asked)]
    engine = Engine(model, LayerSkipDrafter(1), num_draft=2)
    found = engine.generate_batch(prompts, [{**o, "max_tokens": 12} for o in asked])
    assert [done.tokens for done in found] == plain
    assert sum(done.stats.drafted for done in found) > 20
