"""What tests of several packages share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

# workers of a parallel run share the cores: torch must not start a pool of all of them in each
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# what a shell starts in the background ignores Ctrl-C, and so would all that the tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2's GGUF file, fetched once into the user's cache.

    Workers of a parallel run may fetch at the same time: each renames its own complete file.
    """
    from forerun.models import store

    return store.pull("smollm2")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of recorded test data."""
    return DATA
