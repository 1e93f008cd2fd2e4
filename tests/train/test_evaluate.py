"""Acceptance by depth, against the definition written out token by token."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from forerun.train import evaluate
from forerun.train.eagle3 import Eagle3
from forerun.train.evaluate import Judge, laws
from forerun.train.loop import initialised
from forerun.train.target import FrozenTarget
from forerun.train.workers import Workers
from train import tiny
from train.test_eagle3 import D, config


@pytest.mark.parametrize("greedy", [False, True])
def test_it_is_the_definition(model, tmp_path, monkeypatch, greedy):
    monkeypatch.setattr(evaluate, "quicker_type", lambda: torch.float32)
    texts = tiny.texts(3, length=16)
    corpus = tiny.corpus(model, tmp_path, texts)
    target = FrozenTarget.of(model)
    found = laws(model, texts, tmp_path / "laws.npz")
    ids = np.sort(np.random.default_rng(0).choice(64, D, replace=False))
    output = target.output[torch.from_numpy(ids)]
    head = initialised(Eagle3(config(), 3, target.embedding.float()), 0, output)
    with Workers(2) as workers:
        judge = Judge(corpus, found, target.output, ids, greedy=greedy)
        told = judge.acceptance(head, workers)
    survived, places = written_out(corpus, found, target, ids, head, greedy)
    assert told.tokens == places > 0
    np.testing.assert_allclose(told.survival, np.array(survived) / places, rtol=1e-4, atol=1e-7)
    assert told.tokens_per_pass == pytest.approx(1 + sum(told.survival))
    product = np.cumprod(told.by_depth)
    np.testing.assert_allclose(product, told.survival, atol=1e-12)


def written_out(corpus, found, target, ids, head, greedy):
    rows = corpus.rows([0, 1, 2], evaluate.DEPTH)
    with torch.no_grad():
        qs = [head.lm_head(s).softmax(-1) for s in head.unrolled(rows, evaluate.DEPTH)]
    logits = rows.labels @ target.output.float().T
    p = torch.exp(logits - found.normalisers[rows.behind][:, None]).numpy()
    survived, places = [0.0] * evaluate.DEPTH, 0
    for r in range(len(rows.trained)):
        if rows.ahead[r] < evaluate.DEPTH:
            continue
        places, alive = places + 1, 1.0
        for k in range(evaluate.DEPTH):
            q = np.zeros(64)
            q[ids] = qs[k][r].numpy()
            if greedy:
                alive *= float(q.argmax() == found.likeliest[rows.behind[r + k]])
                survived[k] += alive
            else:
                survived[k] += alive * np.minimum(p[r + k], q).sum()
                token = int(rows.guessed[r + k])
                alive *= min(1.0, q[token] / p[r + k][token])
    return survived, places


def test_laws_are_the_target_s_and_kept(model, tmp_path):
    texts = tiny.texts(2, length=8)
    found = laws(model, texts, tmp_path / "laws.npz")
    corpus = tiny.corpus(model, tmp_path, texts)
    rows = corpus.rows([0, 1], 1)
    logits = rows.labels @ FrozenTarget.of(model).output.float().T
    torch.testing.assert_close(
        logits.logsumexp(-1), found.normalisers[rows.behind], rtol=2e-2, atol=2e-2
    )
    again = laws(None, texts, tmp_path / "laws.npz")
    assert torch.equal(again.likeliest, found.likeliest)
