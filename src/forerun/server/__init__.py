"""An OpenAI-compatible server on the engine: `forerun serve`, and the playground's page.

    app.py          routes, and what every answer of a route may be
    requests.py     what clients send          responses.py  what they get
    chat.py, completions.py                    from one to the other
    answers.py      streams of the engine, followed from the event loop
    events.py       server-sent events         pacing.py     the same at a steady rhythm
    logprobs.py, usage.py                      OpenAI's shapes of what the engine reports
    page.py         the playground at /        setup.py      what it may show of this server
    errors.py, security.py, limits.py, logs.py, metrics.py, run.py

Needs the extra `server`. Imported by nothing but the command line.
"""

from __future__ import annotations

from forerun.server.app import create_app, create_page
from forerun.server.config import ServerConfig
from forerun.server.logs import logging_lines
from forerun.server.run import Server

__all__ = ["Server", "ServerConfig", "create_app", "create_page", "logging_lines"]
