"""Heads without attention: trained, written, and what forerun runs of them is what was trained."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
import torch

from forerun.models.base import Step
from forerun.models.heads.load import load_head
from forerun.models.heads.mlp_checkpoint import FORMS, read_mlp_head
from forerun.models.heads.mlp_model import MLPHeadModel
from forerun.train import run as running
from forerun.train.batches import Corpus
from forerun.train.features import StateFile, Taps
from forerun.train.forms import made
from forerun.train.loop import Training, initialised
from forerun.train.mlp import DEPTHS
from forerun.train.run import Run, Wanted
from forerun.train.target import FrozenTarget
from forerun.train.workers import Workers
from train import tiny

LAST = Taps(chosen=(4,), layers=4, hidden=64)
IDS = np.arange(10, 50)


def corpus(model, folder, given):
    states = StateFile(folder / "states.f16", LAST)
    states.compute(model, given)
    return Corpus(given, *states.read(given), LAST)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_trained_is_what_is_run(model, tmp_path, form):
    """Laws of each depth along a text, by torch in float32 and by the model in float64."""
    target = FrozenTarget.of(model)
    own = made(form, target, LAST, len(IDS))
    initialised(own.head, 3, target.output[torch.from_numpy(IDS)])
    own.write(tmp_path / "head", IDS)
    given = tiny.texts(1)
    rows = corpus(model, tmp_path, given).rows([0], DEPTHS)
    with torch.no_grad():
        steps = [own.head.lm_head(y) for y in own.head.unrolled(rows, DEPTHS)]
    head = MLPHeadModel(read_mlp_head(tmp_path / "head"), model, kernels="numpy", exact=True)
    slot = head.open()
    r = 4  # of the trained pairs
    pair = int(rows.trained[r])
    feed = head.feature(rows.features[pair : pair + 1].numpy())
    for depth, expected in enumerate(steps):
        token = int(rows.tokens[pair + depth])
        logits = head.extend([Step(slot=slot, tokens=(token,), feed=feed)])[0][0]
        feed = head.features(slot)[-1:]
        scale = float(expected[r].abs().max())
        # weights are stored in 16 bits, embeddings in bfloat16 while training
        np.testing.assert_allclose(logits, expected[r].numpy(), rtol=0, atol=0.02 * scale)
    assert len(steps) == DEPTHS


@pytest.mark.parametrize("form", FORMS)
def test_the_loss_falls(model, tmp_path, form):
    target = FrozenTarget.of(model)
    own = made(form, target, LAST, len(IDS))
    output = target.output[torch.from_numpy(IDS)].float()
    with Workers(1) as workers:
        training = Training(
            initialised(own.head, 0, output), corpus(model, tmp_path, tiny.texts(8)), output,
            seed=0, workers=workers, pairs=100, weights=own.weights, early=own.early,
        )  # fmt: skip
        losses = [training.update(0.0) for _ in range(60)]
    assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])


def test_a_run_of_another_form(model, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_LEAST_MEASURED", 0.01)
    ticks = count()
    wanted = Wanted(minutes=1.0, out=tmp_path / "run", draft_vocab=32, form="hydra")
    outcome = Run(wanted, model, now=lambda: 0.05 * next(ticks), cache=tmp_path).go()
    assert load_head(outcome.head, model).head.config.form == "hydra"
    assert {row.drafter for row in outcome.rows} == {"plain", "suffix", "head", "suffix+head"}
