"""Training: it learns, and goes on from disk as if nothing had been."""

from __future__ import annotations

from itertools import count

import pytest
import torch

from forerun.train import loop
from forerun.train.eagle3 import Eagle3
from forerun.train.loop import FEWER, LEAST_PAIRS, UPDATES, Training, initialised
from forerun.train.loss import EARLY, WEIGHTS, unrolled_loss
from forerun.train.target import FrozenTarget, draft_ids
from forerun.train.workers import Workers
from train import tiny
from train.test_eagle3 import D, config


@pytest.fixture
def made(model, tmp_path):
    texts = tiny.texts(12, length=30)
    corpus = tiny.corpus(model, tmp_path, texts)
    target = FrozenTarget.of(model)
    ids = draft_ids(texts, D, 64, model.eos)
    output = target.output[torch.from_numpy(ids)].float()

    def make(workers, seed=0, pairs=60):
        head = initialised(Eagle3(config(), 3, target.embedding.float()), seed, output)
        return Training(head, corpus, output, seed=seed, workers=workers, pairs=pairs)

    return make


def test_its_output_matrix_begins_as_the_targets(made):
    with Workers(1) as workers:
        training = made(workers)
        assert torch.equal(training.head.lm_head.weight.detach(), training._output)


def test_it_begins_with_fewer_steps(made, monkeypatch):
    """Of the schedule the first FEWER unroll the steps of EARLY, the others those of WEIGHTS."""
    seen = []

    def watched(states, *rest, weights, **more):
        seen.append((len(states), tuple(weights)))
        return unrolled_loss(states, *rest, weights=weights, **more)

    monkeypatch.setattr(loop, "unrolled_loss", watched)
    with Workers(1) as workers:
        training = made(workers)
        for fraction in (0.0, FEWER - 0.01, FEWER, 0.99):
            training.update(fraction)
    assert seen == [(2, EARLY), (2, EARLY), (3, WEIGHTS), (3, WEIGHTS)]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_loss_falls(made, threads):
    with Workers(threads) as workers:
        training = made(workers)
        losses = [training.update(i / 100) for i in range(60)]
    assert sum(losses[-6:]) < 0.8 * sum(losses[:6])
    assert training.epoch > 5
    assert training.tokens > 60 * 30


def test_taken_up_from_disk_it_is_the_same_bit_for_bit(made, tmp_path):
    path = tmp_path / "training.pt"
    with Workers(2) as workers:
        whole = made(workers)
        for i in range(20):
            whole.update(i / 20)
        first = made(workers)
        for i in range(7):
            first.update(i / 20)
        first.save(path, looks=[1.5])
        second = made(workers)
        assert second.load(path) == {"looks": [1.5]}
        for i in range(7, 20):
            second.update(i / 20)
    assert (second.updates, second.tokens, second.epoch) == (
        whole.updates, whole.tokens, whole.epoch,
    )  # fmt: skip
    for a, b in zip(whole.head.parameters(), second.head.parameters()):
        assert torch.equal(a, b)


def test_updates_are_smaller_where_there_is_time_for_few(made, tmp_path):
    """A clock that ticks a second a look: a pass over some text takes one."""
    path = tmp_path / "training.pt"
    with Workers(2) as workers:
        for seconds, fitting in ((1e6, 600), (10.0, LEAST_PAIRS)):
            training = made(workers, pairs=600)
            training.fit(seconds, count().__next__)
            assert training.pairs == fitting
        training = made(workers, pairs=600)
        pairs = sum(len(piece) for piece in training._corpus.pieces)  # fewer than 600: all at once
        training.fit(200.5 * UPDATES / pairs, count().__next__)
        assert training.pairs == 200
        training.update(0.0)
        assert training.updates == 1
        training.save(path)
        again = made(workers)
        again.load(path)
        assert again.pairs == 200


def test_threads_share_an_update(made):
    """Two threads on half of the texts each go where one goes with all of them."""
    with Workers(1) as one, Workers(2) as two:
        alone, shared = made(one), made(two)
        groups = next(shared._ahead)
        together = [i for group in groups for i in group]
        alone._ahead = iter([[together]])
        shared._ahead = iter([groups])
        alone.update(0.0)
        shared.update(0.0)
    for a, b in zip(alone.head.parameters(), shared.head.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)
