"""The C library, if it is there: loaded once, when first asked for.

    library()        the library (ctypes), or None
    why_missing()    None, or why there is none and what to do about it

It is compiled when forerun is installed. Without it everything works, slowly: whoever needs it says
so, once, with `why_missing`.

What this module does not know: what the library's functions mean. Each caller declares its own.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from threading import Lock

ABI = 5
"""Version of the library's interface that this forerun calls (fr_abi)."""

PLACE = Path(__file__).with_name(
    "libforerun.dylib" if sys.platform == "darwin" else "libforerun.so"
)

_REMEDY = (
    "forerun runs its slow NumPy path. For the fast one, install a C compiler (gcc or clang) and "
    "run: python -m forerun.models.native.build"
)

_lock = Lock()


def library() -> ctypes.CDLL | None:
    """The library, or None where it is missing, of another version, or for another machine."""
    return _loaded()[0]


def why_missing() -> str | None:
    """Why `library()` is None, in a sentence or two that end with the remedy; else None."""
    return _loaded()[1]


def _loaded() -> tuple[ctypes.CDLL | None, str | None]:
    with _lock:
        return _load_once()


@cache
def _load_once() -> tuple[ctypes.CDLL | None, str | None]:
    return load(PLACE)


def load(place: Path) -> tuple[ctypes.CDLL | None, str | None]:
    """The library at `place`, or why there is none."""
    if not place.exists():
        return None, f"The C library was not built when forerun was installed. {_REMEDY}"
    try:
        found = ctypes.CDLL(str(place))
        version = int(found.fr_abi())
    except (OSError, AttributeError) as error:
        return None, f"The C library cannot be loaded ({error}). {_REMEDY}"
    if version != ABI:
        stale = f"The C library has interface {version}, this forerun needs {ABI}."
        return None, f"{stale} {_REMEDY}"
    found.fr_build.restype = ctypes.c_char_p
    return found, None
