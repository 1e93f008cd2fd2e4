"""Requests, slots, streaming and stops around the round."""

from __future__ import annotations

from forerun.engine.engine import Engine, EngineOptions, Status
from forerun.engine.request import Completion, Piece, Prompt
from forerun.engine.stream import Stream

__all__ = ["Completion", "Engine", "EngineOptions", "Piece", "Prompt", "Status", "Stream"]
