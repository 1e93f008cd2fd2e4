"""An engine's process, and calls to it: a JSON object a line each way (`workers/serve.py`).

This module does not know what the calls mean.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forerun.errors import PeerError

_LEAVING = 3.0  # seconds that a process gets to end
_TAIL = 400  # characters of a dead process's last words


class Process:
    """A running worker. `log` gets what it says on standard error."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        patience: float = 900.0,
    ) -> None:
        self.name, self._log, self._patience = name, log, patience
        self._errors = log.open("ab")
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C is for us, not for the children
            )
        except OSError as error:
            self._errors.close()
            raise PeerError(f"{name} could not be started: {error.strerror or error}") from error
        self._buffer = b""

    def call(self, call: str, **fields: Any) -> Any:
        """The answer to a call. PeerError with the process's own words where there is none."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps({"call": call, **fields}).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            raise self._dead(call) from None
        try:
            answer = json.loads(self._line(call))
        except ValueError:
            raise PeerError(f"{self.name} did not answer {call} in JSON; see {self._log}") from None
        if "error" in answer:
            raise PeerError(f"{self.name} could not {call}: {answer['error']}; see {self._log}")
        return answer["ok"]

    def close(self) -> None:
        """End the process; it leaves by itself when its input ends."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:  # the whole group: a worker may have started a server
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_LEAVING)
                break
        self._child.stdout.close()
        self._errors.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _line(self, call: str) -> bytes:
        """The next line, waited for with patience."""
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(self._patience):
                    raise PeerError(
                        f"{self.name} has not answered {call} for {self._patience:.0f} s; "
                        f"see {self._log}"
                    )
                data = os.read(self._child.stdout.fileno(), 1 << 20)
                if not data:
                    raise self._dead(call)
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _dead(self, call: str) -> PeerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(10)
        said = " ".join(self._log.read_text(errors="replace").split())[-_TAIL:]
        return PeerError(
            f"{self.name} ended during {call} (exit code {self._child.returncode}): {said or '…'}"
        )
