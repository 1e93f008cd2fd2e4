"""`forerun play`: the playground in a browser, with a model of this machine behind it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from forerun.cli.options import DRAFTING, MODEL, Settings, command
from forerun.cli.remembering import remembering
from forerun.cli.screen import Screen
from forerun.cli.serve import (
    API_KEY,
    HOST,
    LOG_FILE,
    PORT,
    check_port,
    extra,
    keys,
    loaded,
    name_of,
)

_PAGE = "Page"


# fmt: off
def play(
    host: Annotated[str, HOST] = "127.0.0.1",
    port: Annotated[int, PORT] = 8000,
    no_model: Annotated[bool, typer.Option(
        "--no-model", metavar="", rich_help_panel=_PAGE,
        help="Without a model: all chapters, and runs that were recorded.",
    )] = False,
    no_open: Annotated[bool, typer.Option(
        "--no-open", metavar="", rich_help_panel=_PAGE, help="Do not open a browser.",
    )] = False,
    api_key: Annotated[list[str] | None, API_KEY] = None,
    log_file: Annotated[Path | None, LOG_FILE] = None,
    *,
    settings: Settings,
) -> None:
    # fmt: on
    """See why it is lossless: a page to touch, at its end with your own model.

    Opens http://127.0.0.1:8000 in a browser. What is typed there stays on this machine. Ctrl-C
    ends it.

    Examples:

      forerun play

      forerun play -m model.gguf --draft-model small.gguf

      forerun play --no-model
    """
    server = extra("forerun play")
    settings.check()
    check_port(port)
    config = server.ServerConfig(models=(name_of(settings.model),), api_keys=keys(api_key))
    screen = Screen()
    engine = None if no_model else loaded(settings, screen, max_batch=4, max_waiting=64)
    if engine is not None:
        engine.costs()  # the page shows them, whether anything drafts or not
    level = logging.WARNING if log_file is None else logging.INFO
    with server.logging_lines(log_file, level=level), remembering(settings, engine):
        serving = server.Server(engine, config, host=host, port=port)
        screen.note(f"the playground is at {serving.url} (Ctrl-C ends it)")
        if not no_open and _has_windows():
            threading.Thread(target=webbrowser.open, args=(serving.url,), daemon=True).start()
        serving.run()


play = command(play, only=(MODEL, DRAFTING))


def _has_windows() -> bool:
    """Whether a browser would open in a window: in a terminal it would be in the way."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
