from __future__ import annotations

import pytest

from forerun import Engine
from forerun.drafters import NgramDrafter
from server.fakes import lively_model, serving


@pytest.fixture(scope="module")
def lively():
    """A server over a model whose sampled texts differ; shared by a module's tests."""
    engine = Engine(lively_model(), NgramDrafter(), num_draft=3)
    with serving(engine) as found:
        yield found


@pytest.fixture
def serve():
    """`serve(engine, **config)`: a server for one test."""
    open_ = []

    def go(engine, **config):
        context = serving(engine, **config)
        open_.append(context)
        return context.__enter__()

    yield go
    for context in reversed(open_):
        context.__exit__(None, None, None)
