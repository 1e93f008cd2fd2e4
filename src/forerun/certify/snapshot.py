"""The loop's state as bytes and back: state by value, code by identity.

    shared = Shared()
    blob = shared.dump(loop, tape)      equal bytes, equal states
    loop = shared.load(blob, tape)      a fresh copy, which draws from `tape`

Code (functions, classes, the models' `next_law`, processors) is shared, state is not. The tape is
no part of the state: whoever loads one says which.

What this module does not know: what is run between two snapshots.
"""

from __future__ import annotations

import functools
import io
import pickle
import types
from typing import Any

from forerun.drafters.translate import Translator
from forerun.engine.request import Request
from forerun.errors import CapabilityError
from forerun.models.heads.checkpoint import Head
from forerun.models.heads.graph import HeadFile
from forerun.models.heads.mlp_checkpoint import MLPHead
from forerun.models.native.reference import Weights
from forerun.pace import Costs
from forerun.sampling import SamplingParams
from forerun.text.grammar import CompiledGrammar
from forerun.text.tokenizer import Tokenizer

_SHARED = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    functools._lru_cache_wrapper,
    SamplingParams,
    Request,
    Costs,
    CompiledGrammar,
    Tokenizer,
    Translator,
    Head,
    HeadFile,
    MLPHead,
    Weights,
)
"""Code, and frozen values that may hold code; an object that can be called may have a state."""


class Shared:
    """Keeps the code that its pickles refer to, and so must outlive them."""

    def __init__(self) -> None:
        self._code: dict[int, Any] = {}

    def dump(self, state: Any, tape: object) -> bytes:
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self._code, tape)
        try:
            pickler.dump(state)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise CapabilityError(
                "exact_law snapshots target and drafter as plain Python state, which failed: "
                f"{error}"
            ) from error
        return buffer.getvalue()

    def load(self, blob: bytes, tape: object) -> Any:
        return _Unpickler(io.BytesIO(blob), self._code, tape).load()


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, code: dict[int, Any], tape: object) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._code, self._tape = code, tape

    def persistent_id(self, obj: Any) -> Any:
        if obj is self._tape:
            return "tape"
        if isinstance(obj, _SHARED):
            self._code[id(obj)] = obj
            return id(obj)
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, code: dict[int, Any], tape: object) -> None:
        super().__init__(buffer)
        self._code, self._tape = code, tape

    def persistent_load(self, pid: Any) -> Any:
        return self._tape if pid == "tape" else self._code[pid]
