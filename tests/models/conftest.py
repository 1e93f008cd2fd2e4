"""One torch thread for tiny models: more only wait for each other."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    torch = sys.modules.get("torch")  # not imported for the tests that do without
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
