"""Requests, slots, streaming and stops around the round."""

from __future__ import annotations

from forerun.engine.completion import Completion, Piece
from forerun.engine.engine import Engine
from forerun.engine.options import EngineOptions
from forerun.engine.prompt import Prompt
from forerun.engine.resume import Resume
from forerun.engine.status import Status
from forerun.engine.stream import Stream

__all__ = ["Completion", "Engine", "EngineOptions", "Piece", "Prompt", "Resume", "Status", "Stream"]
