"""The transformers backend against the contract, and against each module's own plain forward."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
import torch
import transformers as tf

from forerun.errors import CacheError, CapabilityError, OptionError, PromptError
from forerun.models import hf_cache
from forerun.models.base import Step
from forerun.models.hf import HFModel

from .contract import CONTRACT, any_life_of_slots_equals_fresh_slots, close, filled, name
from .hf_modules import ARCHITECTURES, THOROUGH, V, module, module_of, rounding


def maker(architecture):
    def make(context=None, max_memory=None):
        return HFModel(module(architecture), context=context, max_memory=max_memory)

    return make


def plain(architecture, texts):
    """Logits [B, S, V] of the module as it is: whole texts, no cache, its own masks."""
    with torch.no_grad():
        return module(architecture)(input_ids=torch.tensor(texts), use_cache=False).logits


@pytest.mark.parametrize("architecture", THOROUGH)
@pytest.mark.parametrize("check", CONTRACT, ids=name)
def test_contract(check, architecture):
    check(maker(architecture), rounding(architecture))


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - set(THOROUGH)))
def test_a_life_of_slots(architecture):
    any_life_of_slots_equals_fresh_slots(maker(architecture), rounding(architecture))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_rows_equal_the_modules_own_forward(architecture):
    """Prompt in chunks, a tree in company, the path kept, more tokens: far past the windows."""
    dice = random.Random(1)
    text = [dice.randrange(V) for _ in range(24)]
    model = HFModel(module(architecture))
    other = filled(model, text[:3])
    slot = model.open()
    rows = [model.extend([Step(slot=slot, tokens=text[:5])])[0]]
    rows += [model.extend([Step(slot=slot, tokens=text[5:12])])[0]]
    wrong = [(t + 1) % V for t in text[12:15]]
    tree = Step(slot=slot, tokens=[wrong[0], text[12], wrong[1], text[13], wrong[2], text[14]],
                parents=[-1, -1, 0, 1, 2, 3])  # fmt: skip
    both = model.extend([tree, Step(slot=other, tokens=text[3:7])])
    model.keep(slot, 15, path=(1, 3, 5))
    rows += [both[0][[1, 3, 5]]]
    rows += [model.extend([Step(slot=slot, tokens=text[15:])])[0]]
    expected = plain(architecture, [text])[0]
    near = rounding(architecture)
    close(torch.cat(rows), expected, near)
    close(both[1], expected[3:7], near)
    detour = plain(architecture, [text[:12] + wrong])[0]
    close(both[0][[0, 2, 4]], detour[12:], near)
    model.keep(slot, 9)  # back across every window
    close(model.extend([Step(slot=slot, tokens=text[9:11])])[0], expected[9:11], near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_other_dtypes_agree_up_to_their_rounding(architecture, dtype):
    served = module(architecture, dtype)
    model = HFModel(served)
    text = list(range(3, 19))
    slot = filled(model, text[:10])
    tree = Step(slot=slot, tokens=[1, text[10], 2, text[11]], parents=[-1, -1, 0, 1])
    rows = model.extend([tree])[0]
    assert rows.dtype == torch.float32
    with torch.no_grad():
        whole = served(input_ids=torch.tensor([text[:12]]), use_cache=False).logits[0].float()
    spread = (whole.max() - whole.min()).item()
    close(rows[[1, 3]], whole[10:], spread * (1e-5 if dtype == torch.float32 else 0.05))


def test_float64_stays_float64():
    model = HFModel(module("llama"))
    assert model.extend([Step(slot=model.open(), tokens=[1, 2])])[0].dtype == torch.float64


def test_logits_are_ordinary_tensors():
    """Usable outside inference mode, and free of each other."""
    model = HFModel(module("llama"))
    a, b = model.open(), model.open()
    first, second = model.extend([Step(slot=a, tokens=[1]), Step(slot=b, tokens=[1])])
    kept = second.clone()
    first.fill_(0)
    close(second, kept, 0)


def test_the_head_is_computed_for_wanted_rows_only():
    model = HFModel(module("llama"))
    seen = []
    hook = model.module.lm_head.register_forward_hook(
        lambda _, args, out: seen.append(tuple(out.shape))
    )
    try:
        a, b = model.open(), model.open()
        model.extend([Step(slot=a, tokens=[1] * 9, rows=0)])
        model.extend([Step(slot=a, tokens=[1] * 9, rows=0), Step(slot=b, tokens=[1] * 3, rows=2)])
    finally:
        hook.remove()
    assert seen == [(1, 0, V), (2, 2, V)]


def test_an_empty_step_is_a_pass_over_nothing():
    model = HFModel(module("llama"))
    slot = filled(model)
    assert model.extend([Step(slot=slot, tokens=())])[0].shape == (0, V)
    assert model.length(slot) == 7


@pytest.fixture
def seven_is_nan():
    """Token 7 makes llama's every number NaN."""
    weight = module("llama").model.embed_tokens.weight.data
    clean = weight[7].clone()
    model = HFModel(module("llama"))
    weight[7] = torch.nan
    yield model
    weight[7] = clean


def test_nan_stays_in_its_slot(seven_is_nan):
    """Neither a batch, nor a slot's next owner, nor a rejected token lets NaN through."""
    model = seven_is_nan
    sick, well = filled(model, [1, 2]), filled(model, [3])
    fresh = plain("llama", [[3, 4, 5, 6, 8, 9, 10, 11]])[0]
    rows = model.extend([Step(slot=sick, tokens=[7] * 6), Step(slot=well, tokens=[4, 5])])
    assert rows[0].isnan().all()
    close(rows[1], fresh[1:3], 1e-10)
    model.keep(sick, 2)  # six NaN keys and values lie behind the end now
    rows = model.extend([Step(slot=sick, tokens=[3]), Step(slot=well, tokens=[6, 8, 9, 10, 11])])
    close(rows[0], plain("llama", [[1, 2, 3]])[0, 2:], 1e-10)
    close(rows[1], fresh[3:], 1e-10)
    model.extend([Step(slot=sick, tokens=[7] * 9)])
    model.close(sick)
    again = model.open()
    assert again == sick
    rows = model.extend([Step(slot=again, tokens=[3]), Step(slot=well, tokens=[1])])
    close(rows[0], fresh[:1], 1e-10)


def test_copies_with_nan_say_so(seven_is_nan):
    """A token's NaN spoils all that was read with it, so that it is no one else's."""
    model = seven_is_nan
    slot = filled(model, [1, 2])
    model.extend([Step(slot=slot, tokens=[3, 4, 7], rows=0)])
    assert model.save(slot, 0, 2).sound
    assert not model.save(slot, 2, 4).sound
    model.keep(slot, 2)
    model.extend([Step(slot=slot, tokens=[3, 4], rows=0)])
    assert model.save(slot, 0, 4).sound


def test_nan_out_of_reach_is_not_forgotten(seven_is_nan):
    """A short pass does not see the NaN behind it; a later one, made long by its company, would."""
    model = seven_is_nan
    sick, well = filled(model, [1, 2]), filled(model, [3])
    model.extend([Step(slot=sick, tokens=[7] * 6, rows=0)])
    model.keep(sick, 2)
    expected = plain("llama", [[1, 2, 3, 4]])[0, 2:]
    close(model.extend([Step(slot=sick, tokens=[3])])[0], expected[:1], 1e-10)
    rows = model.extend([Step(slot=sick, tokens=[4]), Step(slot=well, tokens=[5] * 9, rows=0)])
    close(rows[0], expected[1:], 1e-10)


def test_a_failed_pass_leaves_lengths_and_no_traces(seven_is_nan):
    model = seven_is_nan
    a, b = filled(model, [1, 2]), filled(model, [3])
    model.extend([Step(slot=a, tokens=[7] * 6, rows=0)])
    model.keep(a, 2)
    hook = model.module.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.extend([Step(slot=a, tokens=[5] * 2), Step(slot=b, tokens=[6] * 9)])
    hook.remove()
    assert (model.length(a), model.length(b)) == (2, 1)
    rows = model.extend([Step(slot=a, tokens=[3]), Step(slot=b, tokens=[4, 5, 6, 1, 1, 1, 1, 1])])
    close(rows[0], plain("llama", [[1, 2, 3]])[0, 2:], 1e-10)
    close(rows[1], plain("llama", [[3, 4, 5, 6, 1, 1, 1, 1, 1]])[0, 1:], 1e-10)


def test_room_grows_by_pages_up_to_the_context():
    model = HFModel(module("llama"), context=100)
    slot = model.open()
    sizes = []
    for _ in range(10):
        model.extend([Step(slot=slot, tokens=[1] * 10, rows=0)])
        sizes.append(model._cache.positions)
    assert sizes == [64] * 6 + [100] * 4
    assert (
        model.cache_bytes == 100 * 3 * 2 * 2 * 8 * 8
    )  # layers, keys and values, heads, width, bytes


def test_past_max_memory_is_an_error_with_the_figures():
    one = 3 * 2 * 2 * 8 * 8  # bytes a position
    model = HFModel(module("llama"), max_memory=20 * one)
    slot = filled(model, [1] * 9)
    other = model.open()
    with pytest.raises(CacheError, match=rf"2 slots of 11 positions need {22 * one:,} bytes"):
        model.extend([Step(slot=slot, tokens=[1, 2], rows=0)])
    assert (model.length(slot), model.length(other)) == (9, 0)
    rows = model.extend([Step(slot=slot, tokens=[3]), Step(slot=other, tokens=[3])])
    close(rows[1], plain("llama", [[3]])[0], 1e-10)
    close(rows[0], plain("llama", [[1] * 9 + [3]])[0, 9:], 1e-10)
    with pytest.raises(CacheError, match="3 slots of"):
        model.open()
    model.close(other)
    assert model.open() == other


def test_rows_move_together_where_memory_is_short():
    one = 3 * 2 * 2 * 8 * 8
    model = HFModel(module("llama"), max_memory=12 * one)
    text = list(range(12))
    slots = [filled(model, text[:2]) for _ in range(4)]
    copy = filled(model, text[1:3])
    pages = model.save(slots[3], 0, 2)
    for slot in (*slots[:3], copy):
        model.close(slot)
    assert model.fits([12])
    assert not model.fits([7, 6])
    rows = model.extend([Step(slot=slots[3], tokens=text[2:])])[0]  # now row 0 of one
    close(rows, plain("llama", [text])[0, 2:], 1e-10)
    assert (model._cache.slots, model._cache.positions) == (1, 12)
    model.keep(slots[3], 6)
    other = model.open()
    assert other == 0
    model.restore(other, pages, 2)
    rows = model.extend([Step(slot=other, tokens=[3]), Step(slot=slots[3], tokens=[])])
    close(rows[0], plain("llama", [[0, 1, 3]])[0, 2:], 1e-10)
    rows = model.extend([Step(slot=slots[3], tokens=[]), Step(slot=other, tokens=[4, 5, 6])])
    close(rows[1], plain("llama", [[0, 1, 3, 4, 5, 6]])[0, 3:], 1e-10)
    with pytest.raises(CacheError, match=rf"2 slots of 7 positions need {14 * one:,} bytes"):
        model.extend([Step(slot=slots[3], tokens=[6])])
    assert (model.length(slots[3]), model.length(other)) == (6, 6)
    model.close(other)
    close(model.extend([Step(slot=slots[3], tokens=[6])])[0], plain("llama", [text])[0, 6:7], 1e-10)


def test_max_memory_below_one_token_is_refused():
    one = 3 * 2 * 2 * 8 * 8
    with pytest.raises(
        OptionError, match=rf"max_memory must be at least {one:,} bytes.* not {one - 1:,}"
    ):
        HFModel(module("llama"), max_memory=one - 1)
    model = HFModel(module("llama"), max_memory=one)
    assert model.extend([Step(slot=model.open(), tokens=[1])])[0].shape == (1, V)
    assert model.cache_bytes == one


@pytest.mark.parametrize("context", [1, 2, 8, 9, 10])
def test_a_context_shorter_than_the_check(context):
    model = HFModel(module("llama"), context=context)
    assert model.context == context
    slot = filled(model, [1] * context)
    with pytest.raises(CacheError, match=f"its context is {context}"):
        model.extend([Step(slot=slot, tokens=[1])])


@pytest.mark.parametrize("limit", [7, 8, 9, 10])
def test_a_config_shorter_than_the_check(limit):
    config = tf.GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=limit)
    served = module_of(config)
    model = HFModel(served)
    assert model.context == limit
    text = list(range(limit))
    with torch.no_grad():
        expected = served(input_ids=torch.tensor([text]), use_cache=False).logits[0]
    close(model.extend([Step(slot=model.open(), tokens=text)])[0], expected, 1e-10)


def test_a_config_too_short_to_be_checked():
    config = tf.GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=6)
    with pytest.raises(CapabilityError, match="texts of 6 tokens by its config; at least 7"):
        HFModel(module_of(config))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": 0}, "context must be at least 1, not 0"),
        ({"context": "8"}, "context must be at least 1, not '8'"),
        ({"max_memory": 0}, "max_memory must be a positive number of bytes, not 0"),
        ({"max_memory": "1G"}, "max_memory must be a positive number of bytes, not '1G'"),
    ],
)
def test_limits_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        HFModel(module("llama"), **options)


def scarce_above(monkeypatch, positions, call, error):
    """Of each size above `positions`, the `call`th tensor that the cache makes raises."""
    grown, made = hf_cache._grown, Counter()

    def scarce(old, size, shape):
        made[size] += 1
        if size[2] > positions and made[size] == call:
            raise error
        return grown(old, size, shape)

    monkeypatch.setattr(hf_cache, "_grown", scarce)


@pytest.mark.parametrize("call", range(1, 7))  # keys and values of three layers
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
    ids=["accelerator", "cpu"],
)
def test_no_memory_for_more_cache_changes_nothing(call, error, monkeypatch):
    model = HFModel(module("llama"))
    text = [i % V for i in range(66)]
    slot = filled(model, text[:60])
    before = model.cache_bytes
    with monkeypatch.context() as patch:
        scarce_above(patch, 64, call, error)
        message = (
            r"1 slots of 65 positions need 49,920 bytes of cache \(768 a position\); there is no"
        )
        with pytest.raises(CacheError, match=message):
            model.extend([Step(slot=slot, tokens=text[60:65])])
    assert (model.length(slot), model.cache_bytes) == (60, before)
    assert {tuple(layer.keys.shape) for layer in model._cache.layers} == {(1, 2, 64, 8)}
    rows = model.extend([Step(slot=slot, tokens=text[60:])])[0]
    close(rows, plain("llama", [text])[0, 60:], 1e-10)


def test_no_memory_for_a_copy(monkeypatch):
    def scarce(tensor):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    model = HFModel(module("llama"))
    slot = filled(model, [1] * 9)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "clone", scarce)
        with pytest.raises(CacheError, match="no memory for a copy of 5 tokens"):
            model.save(slot, 2, 7)
    assert model.save(slot, 2, 7).sound


def test_less_room_is_taken_where_more_does_not_fit(monkeypatch):
    model = HFModel(module("llama"))
    slot = filled(model, [1] * 60)
    scarce_above(monkeypatch, 65, 3, torch.OutOfMemoryError("CUDA out of memory."))
    model.extend([Step(slot=slot, tokens=[1] * 5)])
    assert model._cache.positions == 65


def test_other_failures_of_growth_are_not_called_memory(monkeypatch):
    model = HFModel(module("llama"))
    slot = filled(model, [1] * 60)
    scarce_above(monkeypatch, 64, 3, RuntimeError("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        model.extend([Step(slot=slot, tokens=[1] * 5)])
    assert model._cache.positions == 64


def test_real_memory_runs_out():
    model = HFModel(module("llama"))
    slot = filled(model, [1] * 9)
    with pytest.raises(CacheError, match=r"1 slots of 1000000000000 positions need 7.* no memory"):
        model._cache.reserve({slot: 10**12})
    assert model._cache.positions == 64
    model.extend([Step(slot=slot, tokens=[1])])


def test_ids_beyond_the_tokenizer_are_never_given():
    class Words:
        vocab_size = 50
        eos = frozenset({49, 2})

    model = HFModel(module("llama"), tokenizer=Words())
    assert model.vocab_size == 50
    assert model.eos == {2, 49}
    assert model.extend([Step(slot=model.open(), tokens=[1])])[0].shape == (1, 50)


def test_eos_from_the_argument_or_the_config():
    assert HFModel(module("llama")).eos == frozenset()
    assert HFModel(module("llama"), eos=[3, 5]).eos == {3, 5}
    assert HFModel(module("gpt2"), eos=4).eos == {4}
    with pytest.raises(OptionError, match="eos 61 is not an id below vocab_size 61"):
        HFModel(module("llama"), eos=61)
    config = module("llama").generation_config
    config.eos_token_id = [8, 9]
    try:
        assert HFModel(module("llama")).eos == {8, 9}
    finally:
        config.eos_token_id = None


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ({"tokens": [1, 61]}, PromptError, "id 61 is out of range; the model knows 0 to 60"),
        ({"tokens": [-1]}, PromptError, "id -1 is out of range"),
        ({"tokens": [1, 2], "rows": 3}, OptionError, "3 rows of 2 tokens"),
        ({"tokens": [1, 2], "parents": [-1, 1]}, OptionError, r"parents \(-1, 1\) are no tree"),
        ({"tokens": [1, 2], "parents": [-1]}, OptionError, r"parents \(-1,\) are no tree"),
        ({"slot": 9, "tokens": [1]}, CacheError, r"slot 9 is not open; open slots: \[0\]"),
    ],
)
def test_steps_that_make_no_sense(step, error, message):
    model = HFModel(module("llama"))
    slot = filled(model)
    with pytest.raises(error, match=message):
        model.extend([Step(**{"slot": slot, **step})])
    assert model.length(slot) == 7


def test_the_cache_is_not_copied_for_consecutive_slots():
    model = HFModel(module("llama"))
    slots = [filled(model) for _ in range(3)]
    layer = model._cache.layers[0]
    for taken, shared in [(slots, True), (slots[1:], True), ([slots[0], slots[2]], False)]:
        model.extend([Step(slot=s, tokens=[1]) for s in taken])
        with torch.inference_mode():
            new = torch.zeros(len(taken), 2, 1, 8, dtype=torch.float64)
            keys, _ = layer.update(new, new)
        inside = keys.untyped_storage().data_ptr() == layer.keys.untyped_storage().data_ptr()
        assert inside is shared
        for s in taken:
            model.keep(s, 7)


def test_numpy_sees_the_logits():
    model = HFModel(module("llama", torch.float32))
    rows = model.extend([Step(slot=model.open(), tokens=[1])])[0]
    assert np.asarray(rows).dtype == np.float32
