from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from train import tiny


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def model(tmp_path):
    return tiny.target(tmp_path)
