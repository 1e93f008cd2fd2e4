"""A Python callable, from an entry point `module:function` or as an object.

    def sample(prompt_ids, n, sampling, seed):
        return [[…ids…], …]        # n of them

`num_draft` 0 in `sampling` asks for speculation off; a callable that does not know it may be given
a second one for that. A setting that the callable cannot do is left out when it raises
NotImplementedError (its text goes into the report). Attributes of the callable, all optional:
`target` and `draft` (Models that say their laws; without them -m names one), `controls` (names of
sampling keywords it takes), `seeds` (True: the same seed, the same tokens,
with speculation on and off), `precision`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forerun.certify.engines.base import CONTROLS, Tokens, Traits, check_controls
from forerun.errors import CapabilityError, OptionError, PeerError
from forerun.sampling import is_whole

Function = Callable[[Sequence[int], int, Mapping[str, Any], int], Sequence[Sequence[int]]]


class PythonEngine:
    """A callable behind the protocol.

    off  what samples with speculation off, where that is another callable
    """

    def __init__(self, function: Function, off: Function | None = None, name: str = "") -> None:
        self._on, self._off = function, off
        self.name = name or getattr(function, "__qualname__", type(function).__name__)
        self.traits = Traits(
            controls=frozenset(getattr(function, "controls", CONTROLS)) | {"max_tokens"},
            drafts=bool(getattr(function, "drafts", True)),
            switches=off is not None or bool(getattr(function, "switches", False)),
            seeds=bool(getattr(function, "seeds", False)),
            parallel=int(getattr(function, "parallel", 1)),
            precision=getattr(function, "precision", "float32"),
            temperature_last=bool(getattr(function, "temperature_last", False)),
        )

    def sample(
        self, prompt_ids: Sequence[int], n: int, sampling: Mapping[str, Any], seed: int
    ) -> list[Tokens]:
        check_controls(self, sampling)
        function, asked = self._on, dict(sampling)
        if asked.get("num_draft") == 0 and self._off is not None:
            function = self._off
        try:
            found = function(list(prompt_ids), n, asked, seed)
        except NotImplementedError as error:
            raise CapabilityError(f"{self.name}: {error or 'not implemented'}") from error
        except Exception as error:
            raise PeerError(f"{self.name} failed: {type(error).__name__}: {error}") from error
        return checked(found, n, self.name)

    def describe(self) -> dict[str, Any]:
        module = getattr(self._on, "__module__", "")
        return {"engine": "python", "function": f"{module}:{self.name}"}

    def close(self) -> None:
        close = getattr(self._on, "close", None)
        if close is not None:
            close()


def checked(found: Any, n: int, name: str) -> list[Tokens]:
    """PeerError unless it is `n` lists of ids."""
    try:
        listed = [tuple(one) for one in found]
    except TypeError:
        raise PeerError(f"{name} must give {n} lists of token ids, not {found!r:.80}") from None
    if len(listed) != n:
        raise PeerError(f"{name} gave {len(listed)} samples where {n} were asked for")
    for one in listed:
        if bad := [i for i in one if not is_whole(i)]:
            raise PeerError(f"{name} gave {bad[0]!r:.40}, which is no token id")
    return [tuple(int(i) for i in one) for one in listed]


def find(entry: str) -> Function:
    """The callable of an entry point `module:function`; modules of the working directory count.

    OptionError says what is wrong with it.
    """
    module_name, _, path = entry.partition(":")
    if not module_name or not path:
        raise OptionError(f"an entry point is module:function, not {entry!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise OptionError(f"{entry}: module {module_name} cannot be imported: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    for part in path.split("."):
        if not hasattr(found, part):
            raise OptionError(f"{entry}: there is no {part!r} in {module_name}")
        found = getattr(found, part)
    if isinstance(found, type):
        found = found()  # a class whose objects are called
    if not callable(found):
        raise OptionError(f"{entry} is {found!r:.60}, which cannot be called")
    function: Function = found
    return function
