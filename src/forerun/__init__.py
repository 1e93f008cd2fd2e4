"""forerun: speculative decoding that is lossless, and proves it.

engine = forerun.load("smollm2", drafter="suffix")
done = engine.generate("Once upon a time", max_tokens=64, temperature=0.8, seed=7)
"""

from __future__ import annotations

from forerun import certify, drafters, errors, verifiers
from forerun.api import load
from forerun.engine import Completion, Engine, Piece, Stream
from forerun.errors import ForerunError
from forerun.models.base import Model, Step
from forerun.models.tabular import TabularModel
from forerun.sampling import SamplingParams
from forerun.text.grammar import Grammar

__version__ = "0.1.0"

__all__ = [
    "Completion",
    "Engine",
    "ForerunError",
    "Grammar",
    "Model",
    "Piece",
    "SamplingParams",
    "Step",
    "Stream",
    "TabularModel",
    "certify",
    "drafters",
    "errors",
    "load",
    "verifiers",
]
