"""Around the app: sockets, signals, the garbage collector."""

from __future__ import annotations

import gc

from forerun import Engine
from server.fakes import lively_model


def test_what_was_there_before_is_left_out_of_garbage_collection(serve):
    """A model has many objects, and all threads stand while they are looked through."""
    before = gc.get_freeze_count()
    server = serve(Engine(lively_model(), None))
    assert server.ask("/health").status == 200
    assert gc.get_freeze_count() > before + 10_000
    server.stop()
    assert gc.get_freeze_count() <= before
