"""The loss and its gradient, against the formula with torch's own derivatives."""

from __future__ import annotations

import pytest
import torch

from forerun.train import loss as losses
from forerun.train.batches import Rows
from forerun.train.loss import unrolled_loss

R, D, H = 11, 7, 5
WEIGHTS = (1.0, 0.5, 0.25)


def rows(ahead):
    none = torch.zeros(0)
    return Rows(
        features=none, positions=none, texts=none, tokens=none, trained=torch.arange(R),
        ahead=torch.tensor(ahead), guessed=none, behind=none,
        labels=torch.randn(R, H, generator=torch.Generator().manual_seed(1)),
    )  # fmt: skip


def written_out(states, matrix, rows, output, weights, distance):
    p = (rows.labels @ output.T).softmax(-1)
    total = torch.zeros((), dtype=torch.float64)
    for k, weight in enumerate(weights):
        for r in range(R):
            if rows.ahead[r] > k:
                q = (states[k][r] @ matrix.T).softmax(-1)
                wanted = p[r + k]
                more = (
                    1 - torch.minimum(p[r + k], q).sum() if distance else -(wanted * q.log()).sum()
                )
                total = total + weight / sum(weights) * more / R
    return total


@pytest.mark.parametrize("distance", [False, True])
@pytest.mark.parametrize("chunk", [2, 3, 64])
def test_value_and_gradient_are_those_of_the_formula(monkeypatch, distance, chunk):
    monkeypatch.setattr(losses, "_CHUNK", chunk)
    dice = torch.Generator().manual_seed(0)
    given = rows([4, 3, 2, 1, 7, 6, 5, 4, 3, 2, 1])  # two answers
    states = [torch.randn(R, H, generator=dice).requires_grad_() for _ in WEIGHTS]
    matrix = torch.randn(D, H, generator=dice).requires_grad_()
    output = torch.randn(D, H, generator=dice)
    found = unrolled_loss(states, matrix, given, output, weights=WEIGHTS, distance=distance)
    wanted = written_out(states, matrix, given, output, WEIGHTS, distance)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    ours = torch.autograd.grad(found, [matrix, *states])
    theirs = torch.autograd.grad(wanted, [matrix, *states])
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
