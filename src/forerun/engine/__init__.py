"""Requests, slots, streaming and stops around the round."""

from __future__ import annotations

from forerun.engine.engine import Engine, EngineOptions, Stream
from forerun.engine.request import Completion, Piece, Prompt

__all__ = ["Completion", "Engine", "EngineOptions", "Piece", "Prompt", "Stream"]
