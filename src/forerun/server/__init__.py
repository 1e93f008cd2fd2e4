"""An OpenAI-compatible server on the engine: `forerun serve`, and the playground's page.

    app.py          routes, and what every answer of a route may be
    backend.py      where answers come from: an engine here, or others elsewhere
    answers.py      streams of the engine, followed from the event loop
    events.py       server-sent events         pacing.py     the same at a steady rhythm
    page.py         the playground at /        setup.py      what it may show of this server
    security.py, limits.py, logs.py, metrics.py, run.py

What is sent and answered, as data, is in `forerun.openai`. Needs the extra `server`. Imported by
nothing but the command line.
"""

from __future__ import annotations

from forerun.server.app import create_app, create_page
from forerun.server.config import ServerConfig
from forerun.server.logs import logging_lines
from forerun.server.run import Server

__all__ = ["Server", "ServerConfig", "create_app", "create_page", "logging_lines"]
