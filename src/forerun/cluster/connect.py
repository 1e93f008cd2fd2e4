"""Ray, connected: one of this process's own, or one that runs.

What this module does not know: what is done with it.
"""

from __future__ import annotations

import importlib
import os
import signal
from typing import Any

from forerun.errors import MissingExtraError, ReplicaError

LOCAL = "local"


def connected(address: str, *, part: str) -> Any:
    """The module `ray`, with its `part` imported. `address` "local" starts one.

    MissingExtraError without ray; ReplicaError where there is none.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report home
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its log files have the rest
    try:
        ray: Any = importlib.import_module("ray")
        importlib.import_module(f"ray.{part}")
    except ModuleNotFoundError as error:
        raise MissingExtraError.of(error.name or "ray", "cluster", "--ray") from None
    if not ray.is_initialized():
        where = {"include_dashboard": False} if address == LOCAL else {}
        terminate = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error", **where)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ReplicaError(f"no Ray at {address!r}: {last_line(error)}") from None
        signal.signal(signal.SIGTERM, terminate)  # Ray's own leaves at once
    return ray


def last_line(error: BaseException | str) -> str:
    """The line that says what happened: Ray puts whole tracebacks before it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
