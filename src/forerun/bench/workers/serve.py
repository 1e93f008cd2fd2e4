"""Answers calls to one engine, a JSON object a line.

    python serve.py ENGINE_FILE         {"call": NAME, …}  ->  {"ok": …} or {"error": …}

Standard output carries the answers and nothing else: what an engine prints goes to standard error.
The process ends when its standard input does.

This module does not know forerun: it runs under the Python of a peer.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import traceback
from typing import Any

CALLS = ("info", "generate", "passes", "prompt")


def load(path: str) -> Any:
    """The engine file as a module."""
    spec = importlib.util.spec_from_file_location("engine_file", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["engine_file"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that engines end what they started
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine: Any = None
    for line in sys.stdin:
        asked = json.loads(line)
        call = asked.pop("call")
        try:
            if call == "open":
                engine = load(sys.argv[1]).Engine(**asked)
                answer = engine.info()
            elif call in CALLS:
                answer = getattr(engine, call)(**asked)
            else:
                raise ValueError(f"there is no call {call!r}")
            reply = {"ok": answer}
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
