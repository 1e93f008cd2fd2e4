"""The head in torch is the head that drafts: the same laws, true pairs and its own chain."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from forerun.models.base import Step
from forerun.models.heads.checkpoint import offsets, read_head, write_head
from forerun.models.heads.config import HeadConfig
from forerun.models.heads.model import HeadModel
from forerun.train.eagle3 import Eagle3
from forerun.train.forms import tensors
from forerun.train.loop import initialised
from forerun.train.target import FrozenTarget
from train import tiny

D = 24


def config(**changes):
    numbers = {
        "hidden": 64, "heads": 2, "kv_heads": 1, "head_width": 32, "feed_forward": 96,
        "vocabulary": 64, "draft_vocabulary": D, "context": 128, "rotation_base": 500.0,
        "taps": (1, 2, 3),
    }  # fmt: skip
    return HeadConfig(**(numbers | changes))


def stored(folder, head, ids):
    """The checkpoint, and the head with what float16 made of its weights."""
    write_head(folder, config(), tensors(head) | offsets(ids, 64))
    found = read_head(folder)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.copy_(torch.from_numpy(found[name]))
    return found


@pytest.fixture
def both(model, tmp_path):
    """The same head in torch and in NumPy, exact, and a corpus of two texts."""
    target = FrozenTarget.of(model)
    table = target.embedding.float()
    ids = np.sort(np.random.default_rng(0).choice(64, D, replace=False))
    head = initialised(Eagle3(config(), 3, table), 1, target.output[torch.from_numpy(ids)])
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5)
    found = stored(tmp_path / "head", head, ids)
    texts = tiny.texts(2, length=12)
    rows = tiny.corpus(model, tmp_path, texts).rows([0, 1], steps=3)
    return head, HeadModel(found, model, kernels="numpy", exact=True), rows, texts


def test_its_laws_are_those_of_the_head_that_drafts(both):
    head, native, rows, texts = both
    with torch.no_grad():
        steps = [head.lm_head(states).numpy() for states in head.unrolled(rows, 3)]
    features = rows.features.numpy()
    before = 0
    for number, text in enumerate(texts):
        pairs = len(text.ids) - 2
        feed = native.feature(features[before : before + pairs])
        for r, pair in enumerate(rows.trained.tolist()):
            at = pair - before
            if rows.texts[pair] != number:
                continue
            slot = native.open()
            told = native.extend(
                [Step(slot=slot, tokens=text.ids[1 : at + 2], feed=feed[: at + 1])]
            )
            for k in range(int(min(rows.ahead[r], 3))):
                if k:
                    own = native.features(slot)[-1:]
                    told = native.extend(
                        [Step(slot=slot, tokens=(text.ids[at + 1 + k],), feed=own)]
                    )
                np.testing.assert_allclose(told[0][-1], steps[k][r], rtol=2e-3, atol=2e-3)
            native.close(slot)
        before += pairs


def test_parameters_have_the_checkpoint_s_names(both):
    head, _, _, _ = both
    assert set(tensors(head)) == {
        "fc.weight", "norm.weight", "lm_head.weight", "layers.0.hidden_norm.weight",
        "layers.0.input_layernorm.weight", "layers.0.post_attention_layernorm.weight",
        *(f"layers.0.self_attn.{m}_proj.weight" for m in "qkvo"),
        *(f"layers.0.mlp.{m}_proj.weight" for m in ("gate", "up", "down")),
    }  # fmt: skip


def test_texts_in_a_batch_do_not_see_each_other(both, model, tmp_path):
    head, _, rows, texts = both
    alone = tiny.corpus(model, tmp_path, texts).rows([1], steps=3)
    with torch.no_grad():
        together = [states[-len(alone.trained) :] for states in head.unrolled(rows, 3)]
        for a, b in zip(together, head.unrolled(alone, 3)):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
