"""The O(V) work on float32 rows in C: laws from logits, and races. NumPy's version defines both.

    NumPy     distribution.defined_law     randomness.KeyedDraws
    here      law                          race, uniform

They agree in everything but the last places of p: the exp is another. Laws that are cut come as a
`SparseLaw`. Whether C is used depends on the array's type and on the library being there, never on
the batch, the drafter or γ; so within one installation a text is the same however it is decoded.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_double, c_float, c_int, c_int64, c_uint64, c_void_p
from functools import cache
from typing import Any

import numpy as np

from forerun import clib
from forerun.errors import LawError
from forerun.numerics.sparse_law import SparseLaw
from forerun.sampling import SamplingParams

BAD_LOGITS = "the logits hold NaN or +inf"
NO_TOKEN = "no token is left: bans, bias, processors or a grammar leave an empty support"

Noise = tuple[int, int, int, int, int]
"""Philox's key in two words, and the upper three words of its counter."""

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "fr_argmax": (c_int64, [c_char_p, c_void_p, c_int64]),
    "fr_whole_law": (c_int, [c_char_p, c_void_p, c_int64, c_float, c_void_p]),
    "fr_cut_law": (
        c_int64,
        [c_char_p, c_void_p, c_int64, c_float, c_int64, c_double, c_float, c_void_p, c_void_p],
    ),
    "fr_has_laws": (c_int, [c_char_p]),
    "fr_uniform": (c_double, [*[c_uint64] * 5, c_int64]),
    "fr_race": (c_int64, [*[c_uint64] * 5, c_void_p, c_void_p, c_int64]),
}


@cache
def functions() -> ctypes.CDLL | None:
    """The library with its functions declared, or None."""
    library = clib.library()
    if library is not None:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    return library


def serves(array: Any) -> bool:
    """Whether C does the work for this array: float32 in NumPy, and the library is there."""
    return type(array) is np.ndarray and array.dtype == np.float32 and functions() is not None


def law(l: Any, params: SamplingParams, path: bytes | None = None) -> Any:
    """The law of logits that penalties, bias, processors and masks have gone over.

    An array [V], or a SparseLaw where params cut it. `path` names an instruction path, for tests.
    """
    c: Any = functions()
    l = l if l.flags.c_contiguous else l.copy()
    size, at = len(l), l.ctypes.data
    if params.temperature == 0:
        return SparseLaw.certain(checked(c.fr_argmax(path, at, size)), size)
    p = np.empty(size, np.float32)
    if not cuts(params):
        checked(c.fr_whole_law(path, at, size, params.temperature, p.ctypes.data))
        return p
    ids = np.empty(size, np.int32)
    top_k = min(params.top_k, size)
    cut = (params.temperature, top_k, params.top_p, params.min_p)
    left = checked(c.fr_cut_law(path, at, size, *cut, ids.ctypes.data, p.ctypes.data))
    return as_law(left, ids, p, params, size)


def cuts(params: SamplingParams) -> bool:
    """Whether tokens are left out of the law, which has its ids then."""
    return params.temperature > 0 and bool(params.top_k or params.top_p < 1 or params.min_p)


def as_law(found: int, ids: Any, p: Any, params: SamplingParams, size: int) -> Any:
    """Of what the library found: which token, or how many of `ids` and `p`; all of `p` where there
    are no `ids`."""
    if params.temperature == 0:
        return SparseLaw.certain(found, size)
    return p if ids is None else SparseLaw(ids[:found].copy(), p[:found].copy(), size)


def uniform(noise: Noise, token: int) -> float | None:
    """u of a token id; None without the library."""
    c: Any = functions()
    return None if c is None else float(c.fr_uniform(*noise, token))


def race(noise: Noise, ids: Any, p: Any) -> int:
    """The token that wins: argmin E / p over `ids` (None: 0, 1, …), the first of equals."""
    c: Any = functions()
    p = np.ascontiguousarray(p)
    if ids is None:
        return int(c.fr_race(*noise, None, p.ctypes.data, len(p)))
    ids = np.ascontiguousarray(ids, np.int32)
    return int(ids[c.fr_race(*noise, ids.ctypes.data, p.ctypes.data, len(p))])


def checked(result: int) -> int:
    """What the library says of a row: how many, which one; LawError for its negative numbers."""
    if result < 0:
        raise LawError(BAD_LOGITS if result == -1 else NO_TOKEN)
    return result
