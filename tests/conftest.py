"""What tests of several packages share."""

from __future__ import annotations

from pathlib import Path

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
